"""Which training documents are in the validation set too, word for word or nearly? A score would reward
memory there.

Documents on both sides refuse the corpus. Near duplicates leave the training set where the split is ours
to choose; in a split that the user chose they are counted, and many of them refuse it. Generated stories
are exempt from that second part: both splits are draws from one distribution, and likeness is what that
distribution gives.
"""

from collections.abc import Sequence

from lab.config.strict import ConfigError
from lab.data.corpus import Corpus, Document, Documents, batches, digest
from lab.data.near_duplicates import SIMILAR, ShingleIndex
from lab.data.shard_meta import NearDuplicates

MOST_SHARE = 0.01


class Leaks:
    """Separates the training documents from `validation`, and knows afterwards what was found."""

    def __init__(self, corpus: Corpus, validation: Sequence[Document]) -> None:
        self._corpus, self._validation = corpus, validation
        self._numbers = {digest(document.text): number for number, document in enumerate(validation)}
        # The first training document that is, or nearly is, the validation document of that number.
        self._same: dict[int, Document] = {}
        self._near: dict[int, Document] = {}
        self._passed = self._dropped = 0

    def separate(self, training: Documents) -> Documents:
        """Passes training documents through. Raises ConfigError at their end if the splits share too much."""
        if self._corpus.has_floor:
            yield from self._without_same(training)
        else:
            yield from self._without_near(self._without_same(training))
        self._refuse()

    def near_duplicates(self) -> NearDuplicates:
        """For the record, once all training documents are through."""
        first = self._first(self._near, "nearly") if self._near else None
        return NearDuplicates(len(self._near), self._dropped, first)

    def _without_same(self, training: Documents) -> Documents:
        for document in training:
            number = self._numbers.get(digest(document.text))
            if number is not None:
                self._same.setdefault(number, document)
            else:
                yield document

    def _without_near(self, training: Documents) -> Documents:
        index = ShingleIndex([document.text for document in self._validation])
        for batch in batches(training):
            for document, near in zip(batch, index.find([d.text for d in batch]), strict=True):
                for number in near:
                    self._near.setdefault(number, document)
                if near and self._corpus.drops_near_duplicates:
                    self._dropped += 1
                else:
                    self._passed += 1
                    yield document

    def _refuse(self) -> None:
        of = f"of {len(self._validation)} validation documents"
        if self._same:
            key = "data.grammar" if self._corpus.has_floor else "data.validation_path"
            fix = "Allow more stories" if self._corpus.has_floor else "Remove them from one of the two"
            first = self._first(self._same, "the same as")
            raise ConfigError(
                f"{key}: {len(self._same)} {of} are in the training set too (first: {first}). {fix}."
            )
        if not self._corpus.drops_near_duplicates and len(self._near) > MOST_SHARE * len(self._validation):
            raise ConfigError(
                f"data.validation_path: {len(self._near)} {of} are nearly in the training set too, at a "
                f"similarity of {SIMILAR} or more (first: {self._first(self._near, 'nearly')}). Remove them "
                "from one of the two."
            )
        if self._dropped > self._passed:
            raise ConfigError(
                f"data.path: {self._dropped} of {self._dropped + self._passed} training documents nearly "
                f"equal one held out (first: {self._first(self._near, 'nearly')}). Remove near copies, or "
                "give data.validation_path."
            )

    def _first(self, found: dict[int, Document], how: str) -> str:
        number, document = next(iter(found.items()))
        return f"{self._validation[number].place}, {how} {document.place}"
