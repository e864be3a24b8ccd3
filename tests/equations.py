"""All formulas, and what their expressions come to: arithmetic over figures, and nothing else."""

import ast
import importlib
import math
import operator
import pkgutil
from collections.abc import Mapping

import service.core
from service.core.explanation import FUNCTIONS, Formula

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_CALLS = {
    "sum": lambda *parts: math.fsum(parts),
    "min": lambda *parts: min(parts),
    "max": lambda *parts: max(parts),
    **{name: getattr(math, name) for name in FUNCTIONS - {"sum", "min", "max"}},
}


def registered() -> list[Formula]:
    """Every formula of the computation core."""
    found: list[Formula] = []
    for module in pkgutil.walk_packages(service.core.__path__, "service.core."):
        for value in vars(importlib.import_module(module.name)).values():
            group = value if isinstance(value, tuple) else (value,)
            found += [each for each in group if isinstance(each, Formula)]
    return found


def evaluate(expression: str, figures: Mapping[str, float | str]) -> float | str:
    """What an expression comes to; what is over zero, and whole parts of infinity, are infinite."""
    return _value(ast.parse(expression, mode="eval").body, figures)


def _value(node: ast.expr, figures: Mapping[str, float | str]) -> float | str:
    match node:
        case ast.Constant(value=int() | float() | str() as number):
            return number
        case ast.Name(id=name):
            return figures[name]
        case ast.UnaryOp(op=sign, operand=operand):
            return _OPERATORS[type(sign)](_value(operand, figures))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            divisor = _value(right, figures)
            return _value(left, figures) / divisor if divisor else math.inf
        case ast.BinOp(left=left, op=sign, right=right):
            return _OPERATORS[type(sign)](_value(left, figures), _value(right, figures))
        case ast.Compare(left=left, ops=[sign], comparators=[right]):
            return _OPERATORS[type(sign)](_value(left, figures), _value(right, figures))
        case ast.BoolOp(op=op, values=parts):
            holding = (bool(_value(part, figures)) for part in parts)
            return all(holding) if isinstance(op, ast.And) else any(holding)
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, figures) else other, figures)
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]):
            values = [_value(part, figures) for part in parts]
            if name in ("ceil", "floor") and math.isinf(values[0]):
                return values[0]
            return _CALLS[name](*values)
    raise ValueError(f"no arithmetic: {ast.unparse(node)}")
