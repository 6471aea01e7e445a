"""Generates the source of encoders: a straight-line function for one version of a message.

The function appends bytes to a list that is joined at the end. Adjacent fixed-size values and the length that
follows share one struct call:

    s2 = o1.topic.encode()
    n = len(s2) + 1
    append(p_iB(o1.partition, n) if n < 128 else p_i(o1.partition) + encode_string_length(n))
    append(s2)

A field that the version does not have is left out. In a request or a record, losing a value this way raises
EncodeError unless the schema calls the field ignorable, as in Kafka. In a response the value is dropped,
since handlers fill all fields once for all versions.

A value of the wrong type raises TypeError, AttributeError or `struct.error`; `codec` turns these into
EncodeError.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as PackedStruct
from typing import Any

from kafkapy.protocol.primitives import SHORT_ARRAY, array_packers
from kafkapy.protocol.schema import FIXED, Field, MessageSchema, Struct


def is_not_default(field: Field, value: str) -> str:
    """Return an expression that is true when `value` differs from the field's default."""
    if field.default_is_null:
        return f"{value} is not None"
    if field.is_array:
        return f"({value} is None or len({value}))" if field.nullable.last >= 0 else f"len({value})"
    if field.struct is not None:
        parts = [is_not_default(f, f"{value}.{f.name}") for f in field.struct.fields]
        differs = " or ".join(parts)
        return f"({value} is None or {differs})" if field.nullable.last >= 0 else f"({differs})"
    if field.type == "bool":
        return f"not {value}" if field.default else f"{value}"
    return f"{value} != {field.default!r}"


class EncoderSource:
    """Holds in `text` the source of `encode(o1, out, parts)`, and in `names` its globals.

    The function appends bytes to the list `out`. If `parts` is a list, a `records` field moves the bytes in
    `out` to it as one part, and the records follow as they are.
    """

    def __init__(self, schema: MessageSchema, version: int) -> None:
        self.version = version
        self.flexible = version in schema.flexible
        self.drops = schema.kind == "response"
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 1
        self._variables = 1
        self._append = "append"
        self._run: list[tuple[str, str]] = []
        self._struct(schema.root, "o1", schema.name)
        self._flush()
        head = ["def encode(o1, out, parts):", "    append = out.append"]
        self.text = "\n".join(head + self._lines)

    def _emit(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._emit(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _variable(self, prefix: str) -> str:
        self._variables += 1
        return f"{prefix}{self._variables}"

    def _packed(self, run: list[tuple[str, str]]) -> str:
        """Return an expression for adjacent fixed-size values; code "x" is a zero byte."""
        code = "".join(code for _, code in run)
        if not code.strip("x"):
            return repr(bytes(len(code)))
        name = f"p_{code.replace('?', 't')}"
        self.names[name] = PackedStruct(">" + code).pack
        return f"{name}({', '.join(value for value, code in run if code != 'x')})"

    def _flush(self) -> None:
        if self._run:
            self._emit(f"{self._append}({self._packed(self._run)})")
            self._run = []

    def _flush_with_varint(self, value: str, encode: str = "encode_uvarint") -> None:
        """Emit the pending run and a varint, in one call if the varint is short."""
        run, self._run = self._run, []
        short = self._packed([*run, (value, "B")]) if run else f"ONE_BYTE[{value}]"
        long = f"{self._packed(run)} + {encode}({value})" if run else f"{encode}({value})"
        self._emit(f"{self._append}({short} if {value} < 128 else {long})")

    def _struct(self, struct: Struct, variable: str, path: str) -> None:
        if not self.drops:
            for field in struct.absent(self.version):
                if not field.ignorable:
                    with self._block(f"if {is_not_default(field, f'{variable}.{field.name}')}:"):
                        self._emit(f"raise EncodeError('{path}.{field.name}: not in version {self.version}')")
        for field in struct.untagged(self.version):
            self._field(field, f"{variable}.{field.name}", f"{path}.{field.name}", tagged=False)
        if self.flexible:
            self._tags(struct, variable, path)

    def _field(self, field: Field, value: str, path: str, *, tagged: bool) -> None:
        flexible = self.flexible and not field.never_flexible
        nullable = self.version in field.nullable
        if field.is_array:
            self._array(field, value, path, flexible=flexible, nullable=nullable)
        elif field.struct is not None:
            self._nested(field.struct, value, path, nullable=nullable, tagged=tagged)
        elif field.type in FIXED:
            if field.type == "uuid":  # struct would truncate or pad it silently
                with self._block(f"if len({value}) != 16:"):
                    self._emit(f"raise EncodeError('{path}: a UUID is 16 bytes')")
            self._run.append((value, FIXED[field.type]))
        elif field.type == "records":
            self._records(value, flexible=flexible, nullable=nullable)
        else:
            self._sized(field.type, value, flexible=flexible, nullable=nullable)

    def _nested(self, struct: Struct, value: str, path: str, *, nullable: bool, tagged: bool) -> None:
        variable = self._variable("o")
        self._emit(f"{variable} = {value}")
        if not nullable:
            self._struct(struct, variable, path)
            return
        self._flush()
        with self._block(f"if {variable} is None:"):
            self._run.append(("0", "B") if tagged else ("-1", "b"))
            self._flush()
        with self._block("else:"):
            self._run.append(("1", "b"))
            self._struct(struct, variable, path)
            self._flush()

    def _length(self, kind: str, *, flexible: bool) -> None:
        """Emit the pending run and n; if flexible, n is the length + 1, or 0 for null."""
        if flexible:
            self._flush_with_varint("n", "encode_string_length" if kind == "string" else "encode_uvarint")
        else:
            self._run.append(("n", "h" if kind == "string" else "i"))
            self._flush()

    def _sized(self, kind: str, value: str, *, flexible: bool, nullable: bool) -> None:
        """Emit a string or bytes."""
        variable = self._variable("s")
        encoded = f"{variable}.encode()" if kind == "string" else variable
        size = f"len({variable}) + 1" if flexible else f"len({variable})"
        self._emit(f"{variable} = {value}")
        if nullable:
            with self._block(f"if {variable} is None:"):
                self._emit(f"{variable} = b''")
                self._emit(f"n = {0 if flexible else -1}")
            with self._block("else:"):
                if kind == "string":
                    self._emit(f"{variable} = {encoded}")
                self._emit(f"n = {size}")
        else:
            if kind == "string":
                self._emit(f"{variable} = {encoded}")
            self._emit(f"n = {size}")
        self._length(kind, flexible=flexible)
        self._emit(f"{self._append}({variable})")

    def _records(self, value: str, *, flexible: bool, nullable: bool) -> None:
        variable = self._variable("r")
        self._emit(f"{variable} = {value}")
        if nullable:
            with self._block(f"if {variable} is None:"):
                self._emit(f"{variable} = b''")
                self._emit("n = -1")
            with self._block("else:"):
                self._emit(f"n = len({variable}) if {variable}.__class__ is bytes else {variable}.nbytes")
        else:
            self._emit(f"n = len({variable}) if {variable}.__class__ is bytes else {variable}.nbytes")
        if flexible:
            self._emit("n += 1")
        self._length("records", flexible=flexible)
        with self._block("if parts is None:"):
            self._emit(f"append({variable})")
        with self._block(f"elif {variable}:"):
            self._emit("parts.append(b''.join(out))")
            self._emit("out.clear()")
            self._emit(f"parts.append({variable})")

    def _array(self, field: Field, value: str, path: str, *, flexible: bool, nullable: bool) -> None:
        variable = self._variable("a")
        self._emit(f"{variable} = {value}")
        if nullable:
            with self._block(f"if {variable} is None:"):
                self._emit(f"n = {0 if flexible else -1}")
                self._emit(f"{variable} = ()")
            with self._block("else:"):
                self._emit(f"n = len({variable}){' + 1' if flexible else ''}")
        else:
            self._emit(f"n = len({variable}){' + 1' if flexible else ''}")
        if field.struct is not None:
            self._length("array", flexible=flexible)
            element = self._variable("o")
            with self._block(f"for {element} in {variable}:"):
                self._struct(field.struct, element, path)
                self._flush()
        elif field.type in FIXED:
            if field.type == "uuid":
                with self._block(f"if any(len(uuid) != 16 for uuid in {variable}):"):
                    self._emit(f"raise EncodeError('{path}: a UUID is 16 bytes')")
            self._fixed_elements(FIXED[field.type], variable, flexible=flexible)
        else:
            self._length("array", flexible=flexible)
            element = self._variable("e")
            with self._block(f"for {element} in {variable}:"):
                self._sized(field.type, element, flexible=flexible, nullable=False)

    def _fixed_elements(self, code: str, variable: str, *, flexible: bool) -> None:
        self._flush()
        prefix = "B" if flexible else "i"
        name = f"array_{prefix}{code}"
        self.names[name] = array_packers(code, prefix)
        with self._block(f"if len({variable}) < {SHORT_ARRAY}:"):
            self._emit(f"{self._append}({name}[len({variable})](n, *{variable}))")
        with self._block("else:"):
            self._length("array", flexible=flexible)
            self._emit(f"{self._append}(pack_long_array('{code}', {variable}))")

    def _tags(self, struct: Struct, variable: str, path: str) -> None:
        tagged = struct.tagged(self.version)
        if not tagged:
            self._run.append(("", "x"))
            return
        self._flush()
        tags, content, outer = self._variable("t"), self._variable("c"), self._append
        self._emit(f"{tags} = []")
        for field in tagged:
            value = f"{variable}.{field.name}"
            with self._block(f"if {is_not_default(field, value)}:"):
                self._emit(f"{content} = []")
                self._append = f"{content}.append"
                self._field(field, value, f"{path}.{field.name}", tagged=True)
                self._flush()
                self._append = outer
                self._emit(f"{content} = b''.join({content})")
                tag = f"encode_uvarint({field.tag})" if field.tag > 127 else repr(bytes([field.tag]))
                self._emit(f"{tags}.append({tag} + encode_uvarint(len({content})) + {content})")
        with self._block(f"if {tags}:"):
            self._emit(f"{outer}(encode_uvarint(len({tags})))")
            self._emit(f"{outer}(b''.join({tags}))")
        with self._block("else:"):
            self._emit(f"{outer}(b'\\x00')")
