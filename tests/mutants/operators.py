"""The faults that are planted: one expression or statement of a function is exchanged, by its syntax tree."""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
# Names of functions and methods that do nearly the same, one way or the other.
_NAMES = {
    "min": "max",
    "minimum": "maximum",
    "all": "any",
    "floor": "ceil",
    "trunc": "rint",
    "log1p": "log",
    "expm1": "exp",
    "left": "right",
}
_NAMES |= {other: name for name, other in _NAMES.items()}
_UNWRAPPED = {"abs", "sqrt", "floor", "ceil", "rint", "trunc", "copy"}
_SILENT = (ast.Raise, ast.Expr, ast.Assert, ast.AugAssign)
_ERRORS = {
    "warn",
    "ReleaseError",
    "ParameterError",
    "BudgetExceededError",
    "DataError",
    "CheckpointError",
}


@dataclass(frozen=True, eq=False)
class Mutant:
    """One fault.

    Attributes
        function: the name of the outermost function around it, with its class; empty in a module's constants.
        first, last: the lines of the statement that it is in.
        before, after: the statement, on one line each.
        tree: the whole module with the fault in it.
    """

    function: str
    first: int
    last: int
    before: str
    after: str
    tree: ast.Module

    @property
    def key(self) -> str:
        """Says which fault it is, wherever in the file the function is."""
        return f"{self.function}: {self.before}  ->  {self.after}"


def mutants(source: str) -> list[Mutant]:
    """Every fault of a module, each once."""
    tree, found = ast.parse(source), dict[str, Mutant]()
    for function, statement in _statements(tree):
        for before, changed, after in _exchanged(statement):
            whole = _with(tree, before, changed)
            lines = statement.lineno, _own_end(statement)
            text = _one_line(_head(statement)), _one_line(_head(after))
            mutant = Mutant(function, *lines, *text, whole)
            found.setdefault(f"{statement.lineno} {mutant.key}", mutant)
    return list(found.values())


def _statements(tree: ast.Module) -> Iterator[tuple[str, ast.stmt]]:
    """Statements of functions, with the function's name, and constants of the module."""

    def inside(function: str, body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
        for place, statement in enumerate(body):
            if place == 0 and _is_text(statement):
                continue  # a docstring
            if not isinstance(statement, ast.FunctionDef | ast.ClassDef):
                yield function, statement
            for field in ("body", "orelse", "finalbody"):
                yield from inside(function, getattr(statement, field, []))
            for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
                yield from inside(function, part.body)

    for outer in tree.body:
        if isinstance(outer, ast.FunctionDef):
            yield from inside(outer.name, outer.body)
        elif isinstance(outer, ast.ClassDef):
            for method in outer.body:
                if isinstance(method, ast.FunctionDef):
                    yield from inside(f"{outer.name}.{method.name}", method.body)
        elif isinstance(outer, ast.Assign):
            yield "", outer


def _exchanged(statement: ast.stmt) -> Iterator[tuple[ast.AST, ast.AST, ast.stmt]]:
    """Nodes of the statement itself, what each is exchanged for, and the statement then."""
    if isinstance(statement, _SILENT) and not _is_text(statement):
        nothing = ast.copy_location(ast.Pass(), statement)
        yield statement, nothing, nothing
    if isinstance(statement, ast.Return) and statement.value is not None:
        empty = ast.copy_location(ast.Return(ast.Constant(None)), statement)
        if not isinstance(statement.value, ast.Constant):
            yield statement, empty, empty
    for node in _own_nodes(statement):
        for other in _others(node):
            ast.copy_location(other, node)
            changed = _with(statement, node, other)
            assert isinstance(changed, ast.stmt)
            yield node, other, changed


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Expressions of a statement, without those of statements inside it, annotations and messages."""
    below: list[ast.AST] = []
    for name, value in ast.iter_fields(statement):
        if name in {
            "body",
            "orelse",
            "finalbody",
            "handlers",
            "cases",
            "annotation",
            "type_comment",
        }:
            continue
        below += value if isinstance(value, list) else [value]
    while below:
        node = below.pop(0)
        if not isinstance(node, ast.AST) or isinstance(node, ast.JoinedStr):
            continue
        if isinstance(node, ast.Call) and _name(node.func) in _ERRORS:
            continue
        yield node
        below += list(ast.iter_child_nodes(node))


def _others(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare():
            for place, compared in enumerate(node.ops):
                for other in _COMPARED[type(compared)]:
                    changed = copy.copy(node)
                    changed.ops = [*node.ops[:place], other(), *node.ops[place + 1 :]]
                    yield changed
        case ast.BinOp() if type(node.op) in _COMPUTED:
            yield ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right)
        case ast.BoolOp():
            other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield ast.BoolOp(other_op, node.values)
            for place in range(len(node.values)):
                rest = node.values[:place] + node.values[place + 1 :]
                yield rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Constant(value=float(value)):
            yield ast.Constant(value * 1.5 if value else 1.0)
        case ast.Constant(value=str()) if node.value in _NAMES:
            yield ast.Constant(_NAMES[node.value])
        case ast.Name() if node.id in _NAMES and isinstance(node.ctx, ast.Load):
            yield ast.Name(_NAMES[node.id], ast.Load())
        case ast.Attribute() if node.attr in _NAMES:
            yield ast.Attribute(node.value, _NAMES[node.attr], node.ctx)
        case ast.Call() if _name(node.func) in _UNWRAPPED and len(node.args) == 1:
            yield node.args[0]


def _with(tree: ast.AST, node: ast.AST, other: ast.AST) -> ast.AST:
    """A copy of the tree in which one node is another."""
    if tree is node:
        return other
    return copy.deepcopy(tree, {id(node): other})


def _is_text(statement: ast.AST) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _name(function: ast.expr) -> str:
    return getattr(function, "attr", getattr(function, "id", ""))


def _head(statement: ast.stmt) -> ast.stmt:
    """A statement without those inside it."""
    changed = copy.copy(statement)
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        if getattr(changed, field, None):
            setattr(changed, field, [ast.Pass()] if field == "body" else [])
    return changed


def _own_end(statement: ast.stmt) -> int:
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not body:
        return statement.end_lineno or statement.lineno
    first = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
    return max(statement.lineno, first.lineno - 1)


def _one_line(statement: ast.stmt) -> str:
    text = ast.unparse(ast.fix_missing_locations(statement))
    return " ".join(text.removesuffix("\n    pass").split())
