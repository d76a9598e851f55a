# SPDX-License-Identifier: Apache-2.0
"""C text of exact fast convolutions: `winograd.py` says what is computed, here is what is written around the assembly.

The functions' plain C twins, the parts that layers share, and the function that a step calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinyc.kernel.kernel import SpecializedKernel
from tinyc.kernel.site import Site
from tinyc.kernel.windows import ConvParams
from tinyc.kernels.fast import products, weights
from tinyc.kernels.fast.bilinear import BilinearForm
from tinyc.kernels.fast.tiles import INVERSES, Tiles
from tinyc.kernels.form.function import LayerFunction, described, described_twin
from tinyc.machine.thumb import Naked

Order = list[tuple[int, int]]  # (row, column) products as they are used
Parts = tuple[SpecializedKernel, ...]  # vertical and horizontal, and where weights stay int8 those of the weights


def layer_function(
    geometry: Mapping[str, int],
    tiles: Tiles,
    fast: str,
    order: Order,
    parts: Parts,
    bands: Mapping[str, int],
) -> LayerFunction:
    """The products or their twin, and the function of the whole layer. bands: fields of tc_tiles_bands_t; none where
    the stream of int8 weights is made at once, or lies in flash."""
    contract = f"""/* conv2d 3x3 by {_what(tiles.form)}, \
{tiles.in_c} -> {tiles.out_c} channels: tc_tiles.h. scratch: word aligned. */"""
    lines = described("tc_tiles_t", geometry)
    lines += described("tc_tiles_bands_t", bands, prefix="bands_") if bands else []
    struct = "\n".join(f"    {line}" for line in lines)
    first, inputs = "stream", f"{parts[0].name}, {parts[1].name}, @_products"
    if bands:
        first, run = "weights", f"tc_tiles_bands_run(&layer, &bands_layer, {parts[2].name}, {inputs}"
    elif len(parts) > 2:
        words = tiles.groups * tiles.group_words
        first, run = "weights", f"tc_tiles_narrow_run(&layer, {parts[2].name}, {inputs}, {words}"
    else:
        run = f"tc_tiles_run(&layer, {inputs}"
    driver = f"""\
static void @(const int32_t *{first}, const int32_t *constants, const int8_t *pad, const int8_t *x, int8_t *y,
              void *scratch)
{{
{struct}
    {run},
            {first}, constants, pad, x, y, scratch);
}}"""
    return LayerFunction(contract, f"{fast}\n", products_twin(tiles, order), driver, tile=tiles.text)


def _what(form: BilinearForm) -> str:
    return f"{form.products}x{form.across.products} products for {form.m}x{form.across.m} outputs"


def parts_of(tiles: Tiles, order: Order, vertical: Naked, horizontal: Naked, *of_weights: Naked) -> Parts:
    """The two functions of the inputs and that of the weights, if there is one, which depend on little else than the
    number of channels."""
    what = _what(tiles.form)
    family = f"tc_tiles_{tiles.form.name}"
    down = f"/* Inputs of {what}, {tiles.in_c} channels, vertically: tc_tiles.h. */"
    over = f"/* Inputs of {what}, {4 * tiles.quads} channels, horizontally: tc_tiles.h. */"
    first = LayerFunction(down, f"{vertical.text}\n", _vertical_twin(tiles))
    second = LayerFunction(over, f"{horizontal.text}\n", _horizontal_twin(tiles, order))
    stems = f"{family}_vertical_i{tiles.in_c}", f"{family}_horizontal_i{4 * tiles.quads}"
    inputs = first.named(stems[0], "tc_tiles.h"), second.named(stems[1], "tc_tiles.h")
    if not of_weights:
        return inputs
    comment = f"/* Weights of {what}, {4 * tiles.quads} input channels: tc_tiles.h. */"
    third = LayerFunction(comment, f"{of_weights[0].text}\n", _weights_twin(tiles, order))
    return *inputs, third.named(f"{family}_weights_i{4 * tiles.quads}", "tc_tiles.h")


def geometry_of(site: Site, p: ConvParams, tiles: Tiles) -> Mapping[str, int]:
    """What the function of a layer is told."""
    _, in_h, in_w, _ = site.x(0).shape
    _, out_h, out_w, _ = site.y().shape
    return {
        "in_h": in_h,
        "in_w": in_w,
        "in_c": tiles.in_c,
        "out_h": out_h,
        "out_w": out_w,
        "out_c": tiles.out_c,
        "stride": tiles.form.stride,
        "pad_top": p.attrs.pad.top,
        "pad_left": p.attrs.pad.left,
        "m": tiles.form.m,
        "n": tiles.form.n,
        "wide": tiles.form.across.m,
        "columns": tiles.columns,
        "carried": tiles.carried,
        "strip_words": tiles.strip_words,
        "factor_words": tiles.factor_words,
    }


def _vertical_twin(tiles: Tiles) -> str:
    form = tiles.form
    fields = {**_inputs_fields(tiles), "in_c": tiles.in_c, "n": form.n}
    parameters = ("const int8_t *const *x", "int32_t offset", "int32_t columns", "int32_t *strip")
    call = "tc_form_vertical(&layer, x, offset, columns, strip);"
    return described_twin("@", parameters, "tc_form_t", fields, call, tables={"inputs": table_of(form.inputs)})


def _horizontal_twin(tiles: Tiles, order: Order) -> str:
    form = tiles.form.across
    fields = {**_inputs_fields(tiles), "n": form.n, "q": form.products, "carried": tiles.carried}
    fields["apart"] = form.m * form.stride
    tables = {"inputs": table_of(form.inputs), "place": _place_table(tiles.form, order)}
    call = "tc_form_horizontal(&layer, strip, factors);"
    return described_twin("@", ("int32_t *strip", "int32_t *factors"), "tc_form_t", fields, call, tables=tables)


def _weights_twin(tiles: Tiles, order: Order) -> str:
    form = tiles.form
    fields = {"p": form.products, "q": form.across.products, "steps": tiles.steps}
    tables = {
        "taps": table_of([[tap << form.narrow_scale - form.scale for tap in taps] for taps in form.weights]),
        "taps_across": table_of(form.across.weights),
        "place": _place_table(form, order),
    }
    call = "tc_form_weights(&layer, weights, groups, stream);"
    return described_twin("@", weights.PARAMETERS, "tc_form_t", fields, call, tables=tables)


def products_twin(tiles: Tiles, order: Order) -> str:
    form, across, requant = tiles.form, tiles.form.across, tiles.requant
    blocks = [tiles.raises.index(r) if r in tiles.raises else 0 for r in range(form.most_raised + 1)]
    tables = {
        "sums": table_of(form.sums),
        "sums_across": table_of(across.sums),
        "place": _place_table(form, order),
        "raised": ("uint8_t", form.raised),
        "raised_across": ("uint8_t", across.raised),
        "block": ("uint8_t", blocks),
    }
    fields: dict[str, int | str] = {
        "out_c": tiles.out_c,
        "m": form.m,
        "wide": across.m,
        "p": form.products,
        "q": across.products,
        "steps": tiles.steps,
        "shared": form.shared * across.products + across.shared,
        "inverse": INVERSES[form.odd] - 2**32 * (form.odd == 3) if tiles.divided else 1,
        "lowers": int(tiles.lowers),
        "finish": requant.c_text,
        "packed": int(requant.packed),
        "lowered": "{" + ", ".join(map(str, requant.lowered if requant.packed else (0, 0))) + "}",
        "blocks": len(tiles.raises),
    }
    call = "tc_form_products(&layer, stream, constants, factors, y, groups);"
    return described_twin("@_products", products.PARAMETERS, "tc_form_t", fields, call, tables=tables)


def _inputs_fields(tiles: Tiles) -> dict[str, int]:
    return {"columns": tiles.columns, "p": tiles.form.products, "steps": tiles.steps}


def table_of(rows: Sequence[Sequence[int]]) -> tuple[str, list[int]]:
    """The small numbers of a form, row by row."""
    return "int8_t", [value for row in rows for value in row]


def _place_table(form: BilinearForm, order: Order) -> tuple[str, list[int]]:
    pairs = [(i, j) for i in range(form.products) for j in range(form.across.products)]
    return "uint8_t", [order.index(pair) for pair in pairs]
