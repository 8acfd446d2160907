"""The model of a fit to windows: one distribution over sequences of every length, step after step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from eigentree.core.sequences.operator_steps import (
    sample_sequences,
    sample_unknown,
    score_sequences,
    smooth_sequences,
)
from eigentree.counting.holdout_sample import held_share
from eigentree.counting.levels.hats import HATS, MOST_HATS, level_codes, numbers_in_levels
from eigentree.counting.window_counts import batches_of_steps
from eigentree.inference.operators.normalised_scoring import ChainRuleScores, clipped_tables, floor_of
from eigentree.inference.threads import in_order
from eigentree.spectral.learn.shrinkage import FOLDS, LEAST_LOG, MANY_SAMPLES, chosen, hat_counts
from eigentree.spectral.sequences.window_operators import (
    cell_marginals,
    learn_windows,
    level_marginals,
    pseudo_windows,
)
from eigentree.validation import our_arithmetic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from eigentree.arrays import Booleans, Codes, Floats, Integers
    from eigentree.core.sequences.operator_steps import StepOperators
    from eigentree.counting.levels.hats import HatScale
    from eigentree.counting.window_counts import SequencePieces, SequenceStatistics
    from eigentree.data.sequences.sequence_codes import Sequences
    from eigentree.inference.operators.normalised_scoring import Floor
    from eigentree.spectral.learn.shrinkage import HeldOutScore, Trials, Tried
    from eigentree.spectral.sequences.window_operators import WindowFit

__all__ = ["SpectralSequenceModel", "choose_windows"]


@dataclass(frozen=True, eq=False)
class SpectralSequenceModel:
    """Operators of one step, and the distribution that is made of them cell by cell.

    The rule is that of `eigentree.inference.operators.normalised_scoring`, the cells of a sequence one after the
    other: what is negative is clipped and replaced by the channel's own distribution, and a cell that may come from
    that is less informative about those after it. So the probabilities of all sequences of a length are normalised,
    and so are those with the same cells missing.

    Attributes
    ----------
    fit : WindowFit
    shrinkage : float
    floor : float
        The share of its channel's own distribution that each cell has at least.
    marginals : tuple of array, shape (symbols,)
        The distribution of each block of channels over all steps.
    scales : tuple of HatScale or None
        The levels of each channel of numbers, None for other channels; () where there is no channel of numbers.
    """

    fit: WindowFit
    shrinkage: float
    floor: float
    marginals: tuple[Floats, ...]
    scales: tuple[HatScale | None, ...] = ()

    @cached_property
    def numbers(self) -> tuple[tuple[int, HatScale], ...]:
        """The channels of numbers, and their levels."""
        return tuple((channel, scale) for channel, scale in enumerate(self.scales) if scale is not None)

    @cached_property
    def operators(self) -> StepOperators:
        """The operators of a step."""
        return self.fit.operators(self.shrinkage)

    @cached_property
    def _floor(self) -> Floor:
        return floor_of(self.floor, self.marginals)

    @our_arithmetic
    def scored(
        self,
        codes: Codes,
        starts: Integers,
        begins: Booleans | None = None,
        each: bool = False,
        messages: bool = False,
        last: bool = False,
    ) -> ChainRuleScores:
        """Return the scores of sequences that lie end to end.

        Parameters
        ----------
        codes : array, shape (steps, blocks)
            Patterns of the blocks of channels.
        starts : array, shape (sequences + 1,)
        begins : array of bool, shape (sequences,), optional
            Where nothing is known of the steps before a sequence's first; by default all begin with it.
        each, messages, last : bool
            Whether the probability of each step, the message before each, and that behind the last are wanted.
        """
        (log_prob, clipped, refused), *of_steps = score_sequences(
            self.operators,
            self._floor,
            np.ascontiguousarray(codes.T),
            starts,
            np.ones(len(starts) - 1, bool) if begins is None else begins,
            each,
            messages,
            last,
        )
        return ChainRuleScores(log_prob, clipped, refused, *of_steps)

    def log_prob(self, sequences: Sequences, threads: int = 1) -> Floats:
        """Return the log probability of each sequence, missing cells marginalised out; -inf if it is impossible.

        Where channels are numbers it is a log density.
        """
        found = np.empty(sequences.count)

        def score(part: tuple[int, int]) -> None:
            found[part[0] : part[1]] = self._log_prob_of(sequences, *part)

        parts = list(batches_of_steps(sequences.starts, -(-sequences.steps // threads)))
        # Made before threads need it.
        _ = self.operators, self._floor
        list(in_order(lambda k: score(parts[k]), len(parts), threads))
        return found

    def _log_prob_of(self, sequences: Sequences, first: int, last: int) -> Floats:
        """Return the log probability of some of the sequences."""
        patterns, own = self._patterns(sequences, first, last)
        found = self.scored(patterns, own).log_prob
        return found + self._inside_levels(sequences, first, last) if self.numbers else found

    def step_scores(self, codes: Codes, starts: Integers, begins: Booleans) -> Floats:
        """Return the log probability of each step given those before it; arguments are those of `scored`."""
        return self.scored(codes, starts, begins, each=True).each

    def _inside_levels(self, sequences: Sequences, first: int, last: int) -> Floats:
        """Return the log density of the numbers of each of some sequences given their levels."""
        begin, end = int(sequences.starts[first]), int(sequences.starts[last])
        each = np.zeros(end - begin)
        for place, (_, scale) in enumerate(self.numbers):
            each += scale.log_density(sequences.values[begin:end, place])
        owner = np.repeat(np.arange(last - first), np.diff(sequences.starts[first : last + 1]))
        return np.asarray(np.bincount(owner, each, last - first), np.float64)

    def ahead(self, sequences: Sequences, steps: int = 1) -> list[Floats]:
        """Return the distribution of each channel some steps after the last of each sequence.

        Of numbers it is that of their levels.
        """
        found = [np.empty((sequences.count, count)) for count in self.fit.plan.blocks.states]
        for first, last, patterns, own in self._parts(sequences):
            tables = self._behind(self.scored(patterns, own, last=True).last, steps)
            for made, table in zip(found, tables, strict=True):
                made[first:last] = table
        return found

    def filtered(self, sequences: Sequences) -> list[Floats]:
        """Return the distribution of each channel at each step given the steps before it in its sequence.

        Of numbers it is that of their levels.
        """
        found = [np.empty((sequences.steps, count)) for count in self.fit.plan.blocks.states]
        for first, _, patterns, own in self._parts(sequences):
            begin = int(sequences.starts[first])
            messages = self.scored(patterns, own, messages=True).messages
            for made, table in zip(found, self._behind(messages, 1), strict=True):
                made[begin : begin + len(table)] = table
        return found

    def numbers_of(self, channel: int, tables: Floats, shares: Sequence[float] | None) -> Floats:
        """Return the mean of numbers of a channel whose levels have some distributions, or their quantiles.

        The shape is (tables,) or (tables, shares).
        """
        scale = dict(self.numbers)[channel]
        return scale.quantiles(tables, shares) if shares is not None else np.asarray(tables @ scale.means)

    @our_arithmetic
    def drawn(self, starts: Integers, random: np.random.Generator) -> Codes | Floats:
        """Return the cells of new sequences, sampled step after step, shape (steps, channels).

        Cells are codes; where there are numbers, all are floats, and of numbers they are the numbers.
        """
        states = self.fit.plan.blocks.states
        dtype = np.min_scalar_type(max(states))
        made = np.empty((int(starts[-1]), len(states)), dtype, order="F")
        for first, last in batches_of_steps(starts):
            begin, end = int(starts[first]), int(starts[last])
            missing = np.empty((end - begin, len(states)), dtype, order="F")
            missing[:] = states
            made[begin:end] = self._drawn(missing, starts[first : last + 1] - begin, random)
        return numbers_in_levels(made, self.scales, random) if self.numbers else made

    def _drawn(self, codes: Codes, starts: Integers, random: np.random.Generator) -> Codes:
        """Return codes of sequences whose missing cells are sampled, each given the cells before it alone."""
        blocks = self.fit.plan.blocks
        cells = blocks.encoded(codes).T.astype(blocks.pattern_type, order="C")
        sample_sequences(self.operators, self._floor, cells, starts, np.asarray(random.random(cells.shape)))
        return blocks.decoded(cells.T, codes.dtype)

    def _patterns(self, sequences: Sequences, first: int, last: int) -> tuple[Codes, Integers]:
        """Return the patterns of some sequences, and where each starts among them."""
        begin, end = int(sequences.starts[first]), int(sequences.starts[last])
        codes = self._codes(sequences, slice(begin, end))
        return self.fit.plan.blocks.encoded(codes), sequences.starts[first : last + 1] - begin

    def _codes(self, sequences: Sequences, steps: slice = slice(None)) -> Codes:
        """Return the codes of some steps, of numbers those of their levels."""
        return level_codes(sequences.codes[steps], sequences.values[steps], self.scales)

    def _parts(self, sequences: Sequences) -> Iterator[tuple[int, int, Codes, Integers]]:
        """Yield some sequences at a time: the first, the one after the last, their patterns and their starts."""
        for first, last in batches_of_steps(sequences.starts):
            yield first, last, *self._patterns(sequences, first, last)

    def _behind(self, messages: Floats, steps: int) -> list[Floats]:
        """Return the distribution of each channel some steps after messages, all between being missing."""
        blocks = self.fit.plan.blocks
        for _ in range(steps - 1):
            for block in range(len(blocks.sizes)):
                messages = self._passed(messages, block)
        found = []
        for block in range(len(blocks.sizes)):
            found += blocks.channel_tables(block, self._distributions(messages, block))
            messages = self._passed(messages, block)
        return found

    def _passed(self, messages: Floats, channel: int) -> Floats:
        """Return messages behind a missing cell."""
        operators = self.operators
        before, after = operators.ranks[channel : channel + 2].tolist()
        first = int(operators.first_value[channel]) + int(operators.states[channel]) * before * after
        passed = messages @ operators.values[first : first + before * after].reshape(before, after)
        following = (channel + 1) % len(operators.states)
        passed = np.clip(passed, operators.low[following, :after], operators.high[following, :after])
        passed[:, 0] = 1.0
        return np.asarray(passed)

    def _distributions(self, messages: Floats, channel: int) -> Floats:
        """Return the distribution of a channel's next cell given each message."""
        operators, marginal = self.operators, self.marginals[channel]
        rank, first = int(operators.ranks[channel]), int(operators.first_head[channel])
        table = messages @ operators.heads[first : first + rank * len(marginal)].reshape(rank, len(marginal))
        own, _, _ = clipped_tables(table, marginal, float(operators.clipping[channel]))
        return np.asarray((1 - self.floor) * own + self.floor * marginal)

    @our_arithmetic
    def filled(
        self, sequences: Sequences, method: Literal["mode", "median", "sample"], random: np.random.Generator
    ) -> tuple[Codes | Floats, int]:
        """Return the codes of all cells, missing ones filled, and that no sequence was impossible.

        Where there are numbers, all are floats, and of numbers they are the numbers. The messages from either side
        of a cell are multiplied through the operators; what is negative is clipped as in scoring.

        "mode" fills in the most probable state of each and the mean of numbers, "median" their median, "sample"
        samples all missing cells of a sequence together.
        """
        starts = sequences.starts
        codes = self._codes(sequences)
        made: Codes | Floats = codes.astype(np.float64) if self.numbers else codes.copy(order="F")
        for first, last in batches_of_steps(starts):
            begin, end = int(starts[first]), int(starts[last])
            own = starts[first : last + 1] - begin
            if method == "sample":
                made[begin:end] = self._sampled(codes[begin:end], own, random)
            else:
                made[begin:end] = self._filled(codes[begin:end], own, [0.5] if method == "median" else None)
        for place, (channel, _) in enumerate(self.numbers):
            known = ~np.isnan(sequences.values[:, place])
            made[known, channel] = sequences.values[known, place]
        return made, 0

    def _sampled(self, codes: Codes, starts: Integers, random: np.random.Generator) -> Codes | Floats:
        blocks = self.fit.plan.blocks
        sampled = blocks.encoded(codes).T.copy()
        sample_unknown(self.operators, self._floor, sampled, starts, np.asarray(random.random(sampled.shape)))
        made = blocks.decoded(sampled.T, codes.dtype)
        return numbers_in_levels(made, self.scales, random) if self.numbers else made

    def _filled(self, codes: Codes, starts: Integers, shares: Sequence[float] | None) -> Codes | Floats:
        blocks = self.fit.plan.blocks
        patterns = blocks.encoded(codes)
        made: Codes | Floats = codes.astype(np.float64) if self.numbers else codes.copy()
        numbers = dict(self.numbers)
        unknown = self._unknown(patterns)
        cells = np.ascontiguousarray(patterns.T)
        tables = smooth_sequences(self.operators, self._floor, cells, starts, int(unknown.sum()))
        line = np.cumsum(unknown.ravel()).reshape(unknown.shape) - 1
        for block, channels in enumerate(blocks.channels):
            own = np.flatnonzero(unknown[:, block])
            joint = tables[line[own, block], : blocks.symbols[block]]
            for channel, table in zip(channels, blocks.channel_tables(block, joint), strict=True):
                missing = codes[own, channel] == blocks.states[channel]
                if channel in numbers:
                    found = self.numbers_of(channel, table[missing], shares)
                    made[own[missing], channel] = found if shares is None else found[:, 0]
                else:
                    made[own[missing], channel] = table[missing].argmax(axis=1)
        return made

    def _unknown(self, patterns: Codes) -> Booleans:
        """Return which symbols can be more than one, shape (steps, blocks)."""
        matches = self.fit.plan.blocks.matches
        several = [fits.sum(axis=1) > 1 for fits in matches]
        return np.stack([own[patterns[:, block]] for block, own in enumerate(several)], axis=1)


def choose_windows(
    statistics: SequenceStatistics,
    shrinkage: float | None = None,
    floor: float | None = None,
    scaled: bool | None = None,
    hats: int | None = None,
    kind: type[SpectralSequenceModel] = SpectralSequenceModel,
) -> tuple[SpectralSequenceModel, Tried]:
    """Return the model of some statistics at the best shrinkage and floor, and what was tried.

    As for tables (`chosen`), by the likelihood of held-out pieces. Whether counts are scaled to equal noise is
    chosen with the shrinkage; with a given one they are. So is the number of hats of channels of numbers; with a
    given shrinkage it is `usual_hats`. Models are of a `kind`, which says what the likelihood is.
    """
    sample, plan = statistics.sample, statistics.plan
    options = _options(statistics, scaled, hats)

    def trials(added: float) -> Trials:
        share = held_share([sample])
        steps = float(sample.weights @ np.diff(statistics.pieces(sample.codes).own, axis=1)[:, 0])
        folds = 1 if share * steps * MANY_SAMPLES <= statistics.steps else FOLDS
        ways: list[list[HeldOutScore]] = [[] for _ in options]
        lengths, found = [np.zeros(0)], [np.zeros(0)]
        for number in range(folds):
            codes, weights = sample.fold(number, folds, share)
            pieces = statistics.pieces(codes)
            rest = statistics.without(pieces, weights)
            if len(codes) and rest.windows.rows > 0 and rest.firsts.rows > 0:
                marginals = cell_marginals(rest, added)
                for way, (scale, own) in zip(ways, options, strict=True):
                    fit = learn_windows(rest, added, marginals, scale, own)
                    own_marginals = level_marginals(plan, marginals, own, _share(rest, added))
                    way.append(_trial(kind(fit, 0.0, 0.0, own_marginals), pieces))
                lengths.append(np.diff(pieces.own, axis=1)[:, 0])
                found.append(weights)
        every = np.concatenate(found)
        return ways, every, float(every @ np.concatenate(lengths)) / float(every.sum()) if len(every) else 1.0

    def model(way: int, shrinkage: float, floor: float, added: float, smoothing: float) -> SpectralSequenceModel:
        scale, own = options[way]
        fit = learn_windows(statistics, added, cell_marginals(statistics, added), scale, own)
        share = _share(statistics, smoothing)
        marginals = level_marginals(plan, cell_marginals(statistics, smoothing), own, share)
        return kind(fit, shrinkage, floor, marginals, statistics.scales)

    held_out = trials if len(sample.hashes) else None
    return chosen(statistics.steps, pseudo_windows(plan), held_out, model, shrinkage, floor)


def _share(statistics: SequenceStatistics, added: float) -> float:
    """Return the share of all cells that so many pseudo-cells are."""
    return added / (added + statistics.steps) if added else 0.0


def _options(statistics: SequenceStatistics, scaled: bool | None, hats: int | None) -> list[tuple[bool, int]]:
    """Return the ways of learning to choose from: whether counts are scaled, and how many hats there are."""
    plan = statistics.plan
    if not any(plan.hats):
        return [(own, HATS[0]) for own in ((True, False) if scaled is None else (scaled,))]
    # Hats are about equally frequent, so that scaling is no question.
    least = max(rank for rank, own in zip(plan.leaf_ranks, plan.hats, strict=True) if own)
    every = hat_counts(statistics.steps, least, MOST_HATS, hats)
    return [(scaled is not False, own) for own in every]


def _trial(model: SpectralSequenceModel, pieces: SequencePieces) -> HeldOutScore:
    def score(shrinkage: float, floor: float) -> Floats:
        """Return the log probability of each held-out piece, given the steps before it that are known."""
        own = replace(model, shrinkage=shrinkage, floor=floor)
        scores = own.step_scores(pieces.codes, pieces.starts, pieces.begins)
        least = LEAST_LOG * pieces.codes.shape[1]
        sums = np.concatenate([[0.0], np.cumsum(np.maximum(scores, least))])
        first, last = (pieces.starts[:-1, None] + pieces.own).T
        return np.asarray(sums[last] - sums[first])

    return score
