# SPDX-License-Identifier: Apache-2.0
"""`dataclass` of the standard library, whose methods are written when a class is first used.

The standard library compiles the text of six methods for each class: half of the time of an import of tinyc, most of
whose classes a command never uses. Here a class gets its slots at once. When it is first used the standard library says
which fields it has, and the text of `__init__` is compiled; the other methods need no text of their own. A type checker
sees the standard library's decorator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from collections.abc import Callable, Mapping, Sequence
    from operator import attrgetter
    from reprlib import recursive_repr
    from typing import Any

    _NO_FIELD = ("ClassVar", "KW_ONLY", "typing.ClassVar", "dataclasses.KW_ONLY")
    _FIRST_ASKED = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As that of the standard library, for modules whose annotations are strings; with the options of tinyc."""
        return _decorated(cls, **options) if cls is not None else lambda own: _decorated(own, **options)

    def _decorated(
        cls: type, *, frozen: bool = False, slots: bool = False, eq: bool = True, kw_only: bool = False
    ) -> type:
        annotations: Mapping[str, str] = cls.__dict__.get("__annotations__", {})  # noqa: RUF063  `inspect` is slow
        fields = [name for name, kind in annotations.items() if not kind.startswith(_NO_FIELD)]
        declared = {
            name: value for name, value in cls.__dict__.items() if name in annotations or name in _COPIED_MEMBERS
        }
        if slots:
            cls = _with_slots(cls, fields)
        else:
            for name in fields:
                if isinstance(value := cls.__dict__.get(name), dataclasses.Field):
                    if value.default is dataclasses.MISSING:
                        delattr(cls, name)
                    else:
                        setattr(cls, name, value.default)
        own = cls.__dict__
        lazy = _Lazy(cls, declared, frozen, kw_only)
        for name in _FIRST_ASKED:
            setattr(cls, name, _Asked(lazy, name))
        cls.__init__ = _first_call(cls, "__init__", lazy.write)
        if "__repr__" not in own:
            cls.__repr__ = recursive_repr()(_repr)
        if eq and "__eq__" not in own:
            cls.__eq__ = _first_call(cls, "__eq__", lazy.write_comparison)
        if eq and own.get("__hash__") is None:
            cls.__hash__ = _first_call(cls, "__hash__", lazy.write_comparison) if frozen else None
        if frozen:
            cls.__setattr__, cls.__delattr__ = _cannot_set, _cannot_delete
            if slots and "__getstate__" not in own:
                cls.__getstate__, cls.__setstate__ = _state, _set_state
        return cls

    _COPIED_MEMBERS = ("__module__", "__qualname__", "__annotations__", "__orig_bases__", "__post_init__")

    def _with_slots(cls: type, fields: list[str]) -> type:
        """The class once more, with slots for its fields: they cannot be added to one that is there."""
        inherited = {name for base in cls.__mro__[1:] for name in getattr(base, "__slots__", ())}
        members = {
            name: value
            for name, value in cls.__dict__.items()
            if name not in fields and name not in ("__dict__", "__weakref__")
        }
        members["__slots__"] = tuple(name for name in fields if name not in inherited)
        slotted = type(cls)(cls.__name__, cls.__bases__, members)
        slotted.__qualname__ = cls.__qualname__
        return slotted

    class _Lazy:
        """What the standard library makes of a class, made once."""

        def __init__(self, cls: type, declared: Mapping[str, Any], frozen: bool, kw_only: bool) -> None:
            self._cls, self._declared, self._frozen, self._kw_only = cls, declared, frozen, kw_only

        def write(self) -> None:
            """`__init__`, and what tells of fields. Of a class that is declared alike: one with slots could not have
            default values."""
            cls = self._cls
            if not isinstance(cls.__dict__["__dataclass_fields__"], _Asked):
                return
            alike = type(cls)(cls.__name__, cls.__bases__, {"__doc__": "-", **self._declared})
            dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=self._kw_only)(alike)
            cls.__init__ = _init(cls, dataclasses.fields(alike), self._frozen)
            for name in _FIRST_ASKED:
                setattr(cls, name, alike.__dict__[name])

        def write_comparison(self) -> None:
            """By fields of equal names, as tuples of them would be."""
            self.write()
            cls, fields = self._cls, dataclasses.fields(self._cls)
            compared = _values_of([one.name for one in fields if one.compare])
            hashed = _values_of([one.name for one in fields if (one.compare if one.hash is None else one.hash)])

            def equal(self: Any, other: object) -> Any:
                return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

            def digest(self: Any) -> int:
                return hash(hashed(self))

            for name, method in (("__eq__", equal), ("__hash__", digest)):
                if getattr(cls.__dict__.get(name), "is_first_call", False):
                    setattr(cls, name, method)

    _FACTORY = object()  # stands for a default value that is made

    def _init(cls: type, fields: Sequence[dataclasses.Field[Any]], frozen: bool) -> Callable[..., None]:
        """Compiled: it runs more often than all others."""
        namespace: dict[str, Any] = {"FACTORY": _FACTORY, "set_": object.__setattr__}
        parameters: dict[bool, list[str]] = {False: [], True: []}  # by name only
        lines = []
        for one in fields:
            name, value, default = one.name, one.name, ""
            if one.default_factory is not dataclasses.MISSING:
                namespace[f"make_{name}"], default = one.default_factory, "=FACTORY"
                value = f"make_{name}() if {name} is FACTORY else {name}" if one.init else f"make_{name}()"
            elif one.default is not dataclasses.MISSING:
                namespace[f"default_{name}"], default = one.default, f"=default_{name}"
                value = name if one.init else f"default_{name}"
            elif not one.init:
                continue
            if one.init:
                parameters[one.kw_only].append(name + default)
            lines.append(f"set_(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
        if hasattr(cls, "__post_init__"):
            lines.append("self.__post_init__()")
        written = ["self", *parameters[False], *(["*", *parameters[True]] if parameters[True] else [])]
        exec("def __init__(" + ", ".join(written) + "):\n " + ("\n ".join(lines) or "pass"), namespace)
        init: Callable[..., None] = namespace["__init__"]
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        return init

    class _Asked:
        """An attribute of a class that is made when it is first asked for."""

        def __init__(self, lazy: _Lazy, name: str) -> None:
            self._lazy, self._name = lazy, name

        def __get__(self, instance: Any, owner: type) -> Any:
            self._lazy.write()
            return getattr(owner, self._name)

    def _first_call(cls: type, name: str, write: Callable[[], None]) -> Callable[..., Any]:
        """A method that is written before it is called, and stays so."""

        def method(self: Any, *args: Any, **named: Any) -> Any:
            write()
            return getattr(cls, name)(self, *args, **named)

        method.is_first_call = True
        return method

    def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
        if len(names) > 1:
            return attrgetter(*names)
        return lambda own: tuple([getattr(own, name) for name in names])

    def _repr(self: Any) -> str:
        shown = [f"{one.name}={getattr(self, one.name)!r}" for one in dataclasses.fields(self) if one.repr]
        return f"{self.__class__.__qualname__}({', '.join(shown)})"

    def _cannot_set(self: Any, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def _cannot_delete(self: Any, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def _state(self: Any) -> list[Any]:
        return [getattr(self, one.name) for one in dataclasses.fields(self)]

    def _set_state(self: Any, state: list[Any]) -> None:
        for one, value in zip(dataclasses.fields(self), state, strict=True):
            object.__setattr__(self, one.name, value)
