"""Generates the source of a decoder: a straight-line function for one version of a message.

For a struct with two numbers, a string and an array it looks like this:

    o1 = new(FetchTopic)
    o1.partition, o1.offset, n = u_iqB(data, pos)  # adjacent fixed-size values and the length that follows
    pos += 13                                      # share one struct call
    if n > 127:
        n, pos = read_string_length(data, pos - 1)
    ...

No length is trusted: each is checked against the remaining bytes before a slice is taken. An array count is
also checked against the smallest size of its elements, and then charged to `budget`: each value that becomes
a Python object costs one. A read beyond the end raises `struct.error` or IndexError, and
invalid UTF-8 raises UnicodeDecodeError. `codec.decode` turns these into DecodeError, and decodes text that is
not UTF-8 once more with a decoder that replaces what is invalid.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as PackedStruct
from typing import Any

from kafkapy.protocol.primitives import SHORT_ARRAY, array_unpackers
from kafkapy.protocol.schema import FIXED, SIZES, Field, MessageSchema, Struct, element_size

_EMPTY = {"string": "''", "bytes": "b''", "records": "view[pos:pos]"}


def value_count(struct: Struct, version: int) -> int:
    """Return how many objects an element costs: itself and each value in it outside of arrays."""
    count = 1
    for field in struct.fields:
        if field.is_struct and field.struct is not None:
            count += value_count(field.struct, version)
        elif version in field.versions or field.is_array:
            count += 1
    return count


class DecoderSource:
    """Holds in `text` the source of a decoder, and in `names` its globals.

    The source defines `decode(data, pos, end, budget, view)`.
    With `from_bytes`, `data` will be bytes, otherwise a memoryview. With `replaces`, invalid UTF-8 is
    replaced. `view` is a memoryview of `data`, from which records are sliced.
    """

    def __init__(self, schema: MessageSchema, version: int, *, from_bytes: bool, replaces: bool) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.from_bytes = from_bytes
        self.replaces = replaces
        self.names: dict[str, Any] = {}
        self.classes: set[str] = set()
        self._lines: list[str] = []
        self._depth = 1
        self._variables = 0
        self._run: list[tuple[str, str]] = []
        root = self._struct(schema.root, schema.name)
        self._flush()
        self._emit(f"return {root}, pos")
        self.text = "\n".join(["def decode(data, pos, end, budget, view):", *self._lines])

    def _emit(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._emit(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _variable(self) -> str:
        self._variables += 1
        return f"o{self._variables}"

    def _flush(self) -> None:
        """Emit one read for the pending run of fixed-size values."""
        if not self._run:
            return
        targets, codes = zip(*self._run, strict=True)
        self._run = []
        code = "".join(codes)
        if code == "B":
            self._emit(f"{targets[0]} = data[pos]")
        else:
            name = f"u_{code.replace('?', 't')}"
            self.names[name] = PackedStruct(">" + code).unpack_from
            self._emit(f"{', '.join(targets)}{',' * (len(targets) == 1)} = {name}(data, pos)")
        self._emit(f"pos += {sum(SIZES[code] for code in codes)}")

    def _struct(self, struct: Struct, path: str) -> str:
        """Emit the reads of a struct; return the variable that holds it."""
        variable = self._variable()
        self.classes.add(struct.class_name)
        self._emit(f"{variable} = new({struct.class_name})")
        self._fields(struct, variable, path)
        return variable

    def _fields(self, struct: Struct, variable: str, path: str) -> None:
        for field in struct.absent(self.version):
            self._default(field, f"{variable}.{field.name}")
        for field in struct.untagged(self.version):
            self._field(field, f"{variable}.{field.name}", f"{path}.{field.name}", tagged=False)
        if self.flexible:
            self._tags(struct, variable, path)

    def _default(self, field: Field, target: str) -> None:
        if field.default_is_null:
            value = "None"
        elif field.is_array:
            value = "[]"
        elif field.struct is not None:
            self.classes.add(field.struct.class_name)
            value = f"{field.struct.class_name}()"
        else:
            value = repr(field.default)
        self._emit(f"{target} = {value}")

    def _field(self, field: Field, target: str, path: str, *, tagged: bool) -> None:
        flexible = self.flexible and not field.never_flexible
        nullable = self.version in field.nullable
        if field.is_array:
            self._array(field, target, path, flexible=flexible, nullable=nullable)
        elif field.struct is not None:
            self._nested(field, field.struct, target, path, nullable=nullable, tagged=tagged)
        elif field.type in FIXED:
            self._run.append((target, FIXED[field.type]))
        else:
            self._sized(field.type, target, path, flexible=flexible, nullable=nullable)

    def _nested(
        self, field: Field, struct: Struct, target: str, path: str, *, nullable: bool, tagged: bool
    ) -> None:
        if not nullable:
            self._emit(f"{target} = {self._struct(struct, path)}")
            return
        # A nullable struct follows an int8, negative for null. A tagged one follows a varint, 0 for null.
        if tagged:
            self._emit("n, pos = read_uvarint(data, pos)")
        else:
            self._run.append(("n", "b"))
            self._flush()
        with self._block("if n == 0:" if tagged else "if n < 0:"):
            self._emit(f"{target} = None")
        with self._block("else:"):
            self._emit(f"{target} = {self._struct(struct, path)}")
            self._flush()

    def _length(self, kind: str, path: str, *, flexible: bool) -> None:
        """Emit a read of n: the length (-1 for null), or the length + 1 (0 for null) if flexible."""
        self._run.append(("n", "B" if flexible else "h" if kind == "string" else "i"))
        self._flush()
        if flexible:
            reader = "read_string_length" if kind == "string" else "read_uvarint"
            with self._block("if n > 127:"):
                self._emit(f"n, pos = {reader}(data, pos - 1)")

    def _null(self, target: str, path: str, *, flexible: bool, nullable: bool) -> None:
        """Emit the branch for null and impossible lengths: `n` is 0 (flexible) or negative."""
        if nullable and not flexible:
            with self._block("elif n == -1:"):
                self._emit(f"{target} = None")
        with self._block("else:"):
            if nullable and flexible:
                self._emit(f"{target} = None")
            elif nullable:
                self._emit(f"raise DecodeError(f'{path}: negative length {{n}}')")
            else:
                self._emit(f"raise DecodeError('{path}: may not be null')")

    def _sized(self, kind: str, target: str, path: str, *, flexible: bool, nullable: bool) -> None:
        self._length(kind, path, flexible=flexible)
        with self._block("if n > 1:" if flexible else "if n > 0:"):
            self._emit("stop = pos + n - 1" if flexible else "stop = pos + n")
            with self._block("if stop > end:"):
                self._emit(f"raise DecodeError('{path}: longer than the message')")
            if kind == "records":
                value = "view[pos:stop]"
            elif kind == "bytes":
                value = "data[pos:stop]" if self.from_bytes else "bytes(data[pos:stop])"
            elif self.replaces:
                value = "decode_invalid(data[pos:stop])"
            else:
                value = "data[pos:stop].decode()" if self.from_bytes else "str(data[pos:stop], 'utf-8')"
            self._emit(f"{target} = {value}")
            self._emit("pos = stop")
        with self._block("elif n:" if flexible else "elif not n:"):  # many strings are empty
            self._emit(f"{target} = {_EMPTY[kind]}")
        self._null(target, path, flexible=flexible, nullable=nullable)

    def _array(self, field: Field, target: str, path: str, *, flexible: bool, nullable: bool) -> None:
        self._length("array", path, flexible=flexible)
        with self._block("if n:" if flexible else "if n >= 0:"):
            if flexible:
                self._emit("n -= 1")
            smallest = max(1, element_size(field, self.version, self.flexible))
            with self._block("if n > end - pos:" if smallest == 1 else f"if n * {smallest} > end - pos:"):
                self._emit(f"raise DecodeError(f'{path}: {{n}} elements do not fit into the message')")
            cost = value_count(field.struct, self.version) if field.struct is not None else 1
            self._emit("budget -= n" if cost == 1 else f"budget -= n * {cost}")
            with self._block("if budget < 0:"):
                self._emit("raise over_budget()")
            if field.struct is not None:
                self._struct_elements(field.struct, target, path)
            elif field.type in FIXED:
                self._fixed_elements(FIXED[field.type], target)
            else:
                self._sized_elements(field.type, target, path, flexible=flexible)
        self._null(target, path, flexible=flexible, nullable=nullable)

    def _struct_elements(self, struct: Struct, target: str, path: str) -> None:
        element = self._variable()
        self.classes.add(struct.class_name)
        self._emit(f"{target} = {element}s = new_list({struct.class_name}, n)")
        with self._block(f"for {element} in {element}s:"):
            self._fields(struct, element, path)
            self._flush()

    def _fixed_elements(self, code: str, target: str) -> None:
        name = f"array_{code}"
        self.names[name] = array_unpackers(code)
        with self._block(f"if n < {SHORT_ARRAY}:"):
            self._emit(f"{target} = [*{name}[n](data, pos)]")
        with self._block("else:"):
            self._emit(f"{target} = unpack_long_array('{code}', n, data, pos)")
        self._emit(f"pos += n{f' * {SIZES[code]}' if SIZES[code] > 1 else ''}")

    def _sized_elements(self, kind: str, target: str, path: str, *, flexible: bool) -> None:
        element, elements = self._variable(), f"{self._variable()}s"
        self._emit(f"{target} = {elements} = []")
        with self._block("for _ in range(n):"):
            self._sized(kind, element, path, flexible=flexible, nullable=False)
            self._emit(f"{elements}.append({element})")

    def _tags(self, struct: Struct, variable: str, path: str) -> None:
        tagged = struct.tagged(self.version)
        for field in tagged:
            self._default(field, f"{variable}.{field.name}")
        if not tagged and not self._run:
            with self._block("if data[pos]:"):
                self._emit("pos, budget = skip_tags(data, pos, end, budget)")
            with self._block("else:"):
                self._emit("pos += 1")
            return
        self._run.append(("n", "B"))
        self._flush()
        with self._block("if n:"):
            if not tagged:
                self._emit("pos, budget = skip_tags(data, pos - 1, end, budget)")
                return
            self._emit("n, pos = read_uvarint(data, pos - 1)")
            self._emit("budget -= n")
            with self._block("if budget < 0:"):
                self._emit("raise over_budget()")
            stop = f"{self._variable()}_stop"
            with self._block("for _ in range(n):"):
                self._emit("tag, pos = read_uvarint(data, pos)")
                self._emit("size, pos = read_uvarint(data, pos)")
                self._emit(f"{stop} = pos + size")
                with self._block(f"if {stop} > end:"):
                    self._emit(f"raise DecodeError('{path}: tagged field reaches beyond the end')")
                for index, field in enumerate(tagged):
                    with self._block(f"{'el' if index else ''}if tag == {field.tag}:"):
                        self._field(field, f"{variable}.{field.name}", f"{path}.{field.name}", tagged=True)
                        self._flush()
                        with self._block(f"if pos != {stop}:"):
                            self._emit(f"raise DecodeError('{path}.{field.name}: not of the size it claims')")
                self._emit(f"pos = {stop}")
