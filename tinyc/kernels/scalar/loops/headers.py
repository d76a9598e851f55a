# SPDX-License-Identifier: Apache-2.0
"""The headers of the loops: what each computes, its functions in assembly of a core, and the same in C for all other
machines. They are part of a library as the files of runtime_c/ are, which include them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tinyc.base.dataclass import dataclass
from tinyc.kernel.counted import SCALE
from tinyc.kernel.kernel import Once
from tinyc.kernels.scalar.loops import products
from tinyc.kernels.scalar.loops.plain import PlainColumns, PlainPairs, PlainProducts, Statements
from tinyc.kernels.scalar.loops.products import Products
from tinyc.kernels.scalar.loops.rv32 import Rv32Pairs, Rv32Products
from tinyc.kernels.scalar.loops.thumb1 import Thumb1Columns, Thumb1Pairs, Thumb1Products
from tinyc.kernels.scalar.loops.thumb2 import Thumb2Columns, Thumb2Pairs, Thumb2Products
from tinyc.machine.assembly import Assembly

THUMB2, THUMB1, RV32 = "TC_SCALAR_THUMB2", "TC_SCALAR_THUMB1", "TC_RV32_ASM"


@dataclass(frozen=True, slots=True)
class LoopsCore:
    """A kind of core that has functions in assembly."""

    isa: str  # the feature that tells it; "": what has no other
    share: float  # instructions of ARMv7-M for one of it, in kernels that both have
    lanes: int  # channels of a call of products of tiles, at most, which whoever makes its inputs asks for


# By the macro of tc_scalar.h that says where its functions are compiled; the first that a board has the feature of.
CORES: Mapping[str, LoopsCore] = MappingProxyType(
    {
        RV32: LoopsCore("rv32m", SCALE["rv32"], 8),
        THUMB2: LoopsCore("thumb2", 1.0, 4),
        THUMB1: LoopsCore("", SCALE["thumb1"], 2),
    }
)
ALL = frozenset(CORES)


def core_with(isa: frozenset[str]) -> str:
    """The macro of the core that has these features."""
    return next(macro for macro, core in CORES.items() if not core.isa or core.isa in isa)


def cores_of(core: str, isa: frozenset[str]) -> frozenset[str]:
    """The macros of the functions in assembly that a library has: for the core of a board's file and its features.
    The host runs the C."""
    return frozenset() if core == "host" else frozenset({core_with(isa)})


@dataclass(frozen=True, slots=True)
class CoreFunction:
    """A function in assembly, `code`, and where it is compiled: `core`, a macro of tc_scalar.h.

    part_of: the name of all cores, of which a call comes to so many (`times`) of this function; "": its own name.
    """

    name: str
    core: str
    parameters: tuple[str, ...]
    code: Once[Assembly]
    part_of: str = ""
    times: int = 1

    @property
    def asm(self) -> Assembly:
        """Written when it is first asked for: a layer asks what one loop takes, on one core."""
        return self.code()

    @property
    def called(self) -> str:
        """What C calls on all cores."""
        return self.part_of or self.name

    @property
    def text(self) -> str:
        return self.asm.function(self.name, self.parameters)


@dataclass(frozen=True, slots=True)
class LoopHeader:
    """What a header has. contract: its comment. functions: in assembly. calls: by core, C behind them, which calls them
    by the name of all cores. plain: C for other machines."""

    contract: str
    functions: tuple[CoreFunction, ...]
    calls: Mapping[str, str]
    plain: str

    def text(self, name: str, cores: frozenset[str] = ALL) -> str:
        """The file of that name, with the functions in assembly of these cores."""
        guard = name.upper().replace(".", "_")
        parts = [
            f"/* SPDX-License-Identifier: 0BSD */\n/* {self.contract}\n */",
            f'#ifndef {guard}\n#define {guard}\n\n#include "tc_scalar.h"',
        ]
        present = list(dict.fromkeys(function.core for function in self.functions if function.core in cores))
        for number, core in enumerate(present):
            parts.append(f"#{'elif' if number else 'if'} {core}")
            parts += [function.text.rstrip() for function in self.functions if function.core == core]
            parts += [self.calls[core]] if core in self.calls else []
        parts += ["#else", self.plain, "#endif"] if present else [self.plain]
        return "\n\n".join([*parts, "#endif"]) + "\n"


def _plain(name: str, parameters: Sequence[str], c: Statements) -> str:
    """A function in C."""
    head = f"static TC_UNUSED void {name}({', '.join(parameters)})"
    return "\n".join((head, "{", *c.lines, "}"))


def _called(name: str, parameters: Sequence[str], calls: Sequence[str]) -> str:
    """A function that is made of calls."""
    c = Statements()
    for call in calls:
        c.add(call + ";")
    return _plain(name, parameters, c).replace("static TC_UNUSED", "static inline", 1)


# ---- sums of products ----


_X, _W, _COUNT, _SUMS = "const int32_t *x", "const int8_t *w", "int32_t count", "int32_t *sums"


def _dot() -> LoopHeader:
    name, parameters = "tc_scalar_dot4", (_X, _W, _COUNT, _SUMS)
    calls = ("tc_scalar_dot2(x, w, count, sums)", "tc_scalar_dot2(x, w + 2, count, sums + 4)")
    return LoopHeader(
        """2 * count taps x [taps][X1, X2] times w [taps][8], four of the eight channels -> sums [4][P1, P2]
 * (tc_scalar.h says what they are).""",
        (
            CoreFunction(name, THUMB2, parameters, Once(Thumb2Products(products.DOT).write)),
            CoreFunction(
                "tc_scalar_dot2", THUMB1, parameters, Once(Thumb1Products(products.DOT).write), name, len(calls)
            ),
        ),
        {THUMB1: _called(name, parameters, calls)},
        _plain(name, parameters, PlainProducts(products.DOT).write()),
    )


def _dense() -> LoopHeader:
    name, parameters = "tc_scalar_dense4", (_X, _W, _COUNT, _SUMS)
    return LoopHeader(
        "x [4 * count] times w [4 * count][4] -> sums [4], four outputs of a fully connected layer.",
        (
            CoreFunction(name, THUMB2, parameters, Once(Thumb2Products(products.DENSE).write)),
            CoreFunction(name, THUMB1, parameters, Once(Thumb1Products(products.DENSE).write)),
        ),
        {},
        _plain(name, parameters, PlainProducts(products.DENSE).write()),
    )


def _nibbles() -> LoopHeader:
    name, parameters = "tc_scalar_nibbles4", (_X, "const int32_t *w", "const int32_t *end", _SUMS)
    halves = ("tc_scalar_nibbles_upper", "tc_scalar_nibbles_lower")
    return LoopHeader(
        """Taps x [taps][X1, X2] up to `end`, a multiple of 4, times w [taps / 2] -> sums [4][P1, P2] (tc_scalar.h).
 * A word of w has two taps s, t of four channels, from the top s0 s1 t0 t1 s2 s3 t2 t3.""",
        (
            CoreFunction(name, THUMB2, parameters, Once(Thumb2Products(products.NIBBLES).write)),
            *(
                CoreFunction(half, THUMB1, parameters, Once(Thumb1Products(products.NIBBLES, of_four).write), name)
                for half, of_four in zip(halves, (0, 2), strict=True)
            ),
        ),
        {THUMB1: _called(name, parameters, [f"{halves[0]}(x, w, end, sums)", f"{halves[1]}(x, w, end, sums + 4)"])},
        _plain(name, parameters, PlainProducts(products.NIBBLES).write()),
    )


def _lanes(count: int) -> str:
    return f"#define TC_SCALAR_TILE_LANES {count}"


def _tiles(name: str, loop: Products) -> LoopHeader:
    """Products of tiles. On RV32IM for eight channels, and of int16 factors for four too."""
    x = "const int16_t *x" if loop.narrow else _X
    parameters = (x, "const int16_t *w", "int32_t bytes", _SUMS)
    lanes = {name: 8, f"{name}4": 4} if loop.narrow else {name: 8}
    return LoopHeader(
        f"""x [product][channel][tile]{" int16" if loop.narrow else ""} times w [product][channel][4] -> sums
 * [product][lane][tile], which lie right behind x. bytes: of a product in x, {loop.tap_bytes} for each channel, whose
 * number is a multiple of 4. With eight lanes the weights of the last four lie behind those of the first four.""",
        (
            *(
                CoreFunction(own, RV32, parameters, Once(Rv32Products(loop, count).write))
                for own, count in lanes.items()
            ),
            CoreFunction(name, THUMB2, parameters, Once(Thumb2Products(loop).write)),
            CoreFunction(name, THUMB1, parameters, Once(Thumb1Products(loop).write)),
        ),
        {} if loop.narrow else {macro: _lanes(core.lanes) for macro, core in CORES.items()},
        _plain(name, parameters, PlainProducts(loop).write()) + ("" if loop.narrow else f"\n\n{_lanes(4)}"),
    )


# ---- two products in one multiplication ----


def _pairs() -> LoopHeader:
    parameters = ("const uint32_t *x", "const uint32_t *w", "int32_t words", "int32_t *acc")
    functions, calls, plain = list[CoreFunction](), dict[str, list[str]](), list[str]()
    for segment in (2, 4):
        name, two, one = f"tc_scalar_pairs_{segment}", f"tc_scalar_pairs_two{segment}", f"tc_scalar_pairs_one{segment}"
        calls_of_two = [_of_eight(two, lane) for lane in range(0, 8, 2)]
        functions += (
            CoreFunction(name, RV32, parameters, Once(Rv32Pairs(segment).write)),
            CoreFunction(two, THUMB2, parameters, Once(Thumb2Pairs(segment).write), name, len(calls_of_two)),
            CoreFunction(two, THUMB1, parameters, Once(Thumb1Pairs(segment).write), name, len(calls_of_two)),
        )
        by_two = _called(name, parameters, calls_of_two)
        for macro in (THUMB2, THUMB1):
            calls.setdefault(macro, []).append(by_two)
        plain.append(_plain(one, parameters, PlainPairs(segment).write()))
        plain.append(_called(name, parameters, [_of_eight(one, lane) for lane in range(8)]))
    return LoopHeader(
        """x [segment][start, factors] times w [2][words][4] -> acc [8], for segments of 2 and of 4 words
 * (tc_scalar_pairs.h says what they are).""",
        tuple(functions),
        {macro: "\n\n".join(texts) for macro, texts in calls.items()},
        "\n\n".join(plain),
    )


def _of_eight(name: str, lane: int) -> str:
    """The call for outputs from one of the eight on."""
    w = f"w + 4 * words + {lane - 4}" if lane > 4 else "w + 4 * words" if lane == 4 else f"w + {lane}" if lane else "w"
    return f"{name}(x, {w}, words, {f'acc + {lane}' if lane else 'acc'})"


# ---- columns of three pixels ----


def _columns() -> LoopHeader:
    parameters = ("int32_t *columns", _W, "int32_t n")
    functions, plain = list[CoreFunction](), list[str]()
    for stride in (1, 2):
        name = f"tc_scalar_dw3x3_{stride}"
        functions.append(CoreFunction(name, THUMB2, parameters, Once(Thumb2Columns(stride).write)))
        functions.append(CoreFunction(name, THUMB1, parameters, Once(Thumb1Columns(stride).write)))
        plain.append(_plain(name, parameters, PlainColumns(stride).write()))
    return LoopHeader(
        """n pixels of a channel of a 3x3 depthwise convolution with w [3][3], stride 1 or 2: columns of three
 * pixels -> sums at `columns`. A column has row 0 in bits 0-7, row 1 in bits 8-15, row 2 in bits 24-31.
 * Stride 1 reads 3 * ceil(n / 3) + 2 of them and makes up to two pixels more, stride 2 reads 2 * n + 1.""",
        tuple(functions),
        {},
        "\n\n".join(plain),
    )


_HEADERS: Mapping[str, Callable[[], LoopHeader]] = MappingProxyType(
    {
        "tc_scalar_dot.h": _dot,
        "tc_scalar_dense.h": _dense,
        "tc_scalar_nibbles.h": _nibbles,
        "tc_scalar_products.h": lambda: _tiles("tc_scalar_products", products.TILES),
        "tc_scalar_narrow_products.h": lambda: _tiles("tc_scalar_narrow_products", products.NARROW_TILES),
        "tc_scalar_pair_sums.h": _pairs,
        "tc_scalar_columns.h": _columns,
    }
)
NAMES = tuple(_HEADERS)


def loops_of(name: str) -> LoopHeader:
    """What the header of a name in NAMES has."""
    return _HEADERS[name]()


def text_of(name: str, cores: frozenset[str] = ALL) -> str:
    """The header of a name in NAMES, with the functions in assembly of these cores."""
    return loops_of(name).text(name, cores)
