#!/usr/bin/env python3
"""Writes omega.json: small Ω recomputed from docs/numerics.md alone, sharing no code with the library.

Single precision is emulated: an IEEE operation in double, rounded to float, is the float operation.
"""
import json
import math
import pathlib
import struct

MASK = 0xFFFFFFFF
NORMAL, NORM, MIXING, SIGN = 1, 2, 3, 4


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def bits(x):
    return struct.unpack("<i", struct.pack("<f", x))[0]


def from_bits(i):
    return struct.unpack("<f", struct.pack("<i", i))[0]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def word(seed, stream, index, attempt=0):
    block = index // 4
    return philox([block & MASK, block >> 32, stream, attempt], [seed & MASK, seed >> 32])[index % 4]


def log_unit(u):
    b = bits(u)
    e = (b - 0x3F3504F3) >> 23
    t = f32(from_bits(b - (e << 23)) - 1.0)
    p = f32(0.06746601313352585)
    for c in (-0.11675640940666199, 0.11888174712657928, -0.12405591458082199, 0.14219550788402557,
              -0.1666799634695053, 0.2000211924314499, -0.25000008940696716, 0.3333331346511841):
        p = f32(f32(p * t) + f32(c))
    t2 = f32(t * t)
    tail = f32(f32(f32(t * t2) * p) - f32(0.5 * t2))
    return f32(f32(e * 0.693359375) + f32(t + f32(f32(e * f32(-2.12194440e-4)) + tail)))


def polynomial(s, coefficients):
    value = f32(coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = f32(f32(c) + f32(s * value))
    return value


def cos_sin_turn(angle):
    quadrant = ((angle + 0x20000000) & MASK) >> 30
    rest = (angle - (quadrant << 30)) & MASK
    rest -= (rest >> 31) << 32
    y = f32(f32(rest) * 2.0**-30)
    s = f32(y * y)
    sine = f32(y * polynomial(s, [1.5707963705062866, -0.6459634900093079, 0.07968022674322128, -0.004602177068591118]))
    cosine = polynomial(s, [1.0, -1.2337005138397217, 0.25366920232772827, -0.02086007222533226, 0.0009036316769197583])
    return [(cosine, sine), (-sine, cosine), (-cosine, -sine), (sine, -cosine)][quadrant]


def normal(seed, stream, index, attempt=0):
    even = index - index % 2
    u = f32(f32(f32(word(seed, stream, even, attempt)) + 0.5) * 2.0**-32)
    r = f32(math.sqrt(max(0.0, f32(-2.0 * log_unit(u)))))
    return f32(r * cos_sin_turn(word(seed, stream, even + 1, attempt))[index % 2])


def truncated(seed, index, bound):
    attempt = 0
    while abs(normal(seed, NORMAL, index, attempt)) > bound:
        attempt += 1
    return normal(seed, NORMAL, index, attempt)


def householder_rows(a):
    """Orthonormal rows of the LQ factorisation, with LAPACK's signs, and the diagonal of L."""
    n = len(a)
    columns = [row[:] for row in a]  # columns of the transpose
    reflections, diagonal = [], []
    for i in range(n):
        if i == n - 1:
            diagonal.append(columns[i][i])
            break
        v = columns[i][i:]
        beta = -math.copysign(math.sqrt(math.fsum(x * x for x in v)), v[0])
        v[0] -= beta
        norm2 = math.fsum(x * x for x in v)
        reflections.append((i, v, norm2))
        diagonal.append(beta)
        for column in columns[i + 1:]:
            reflect(column, i, v, norm2)
    rows = []
    for i in range(n):
        row = [float(j == i) for j in range(n)]
        for start, v, norm2 in reversed(reflections):
            reflect(row, start, v, norm2)
        rows.append(row)
    return rows, diagonal


def reflect(x, start, v, norm2):
    factor = 2.0 * math.fsum(p * q for p, q in zip(v, x[start:])) / norm2
    for k, p in enumerate(v):
        x[start + k] -= factor * p


def law(r):
    gamma = r["gamma"]
    return {"rbf": (0, math.sqrt(2 * gamma)), "laplace": ("cauchy", gamma), "matern32": (3, math.sqrt(2 * gamma)),
            "matern52": (5, math.sqrt(2 * gamma))}.get(r["kernel"], (0, 1.0))


def chi2(seed, stream, first, count):
    total = 0.0
    for k in range(count):
        total += normal(seed, stream, first + k) ** 2
    return total


def mixing(r, i):
    nu = law(r)[0]
    return math.sqrt(nu / chi2(r["seed"], MIXING, i * 8, nu)) if nu else 1.0


def relative_norm(r, i, n):
    norms = {"auto": "chi" if r["sampler"] == "orf" else "sqrt"}.get(r["norms"], r["norms"])
    return 1.0 if norms == "sqrt" else math.sqrt(chi2(r["seed"], NORM, i * n, n) / n)


def cut(r, scale, value):
    if r["truncation"] == 0 or r["convention"] == "measured":
        return f32(value)
    bound = f32(r["truncation"] * scale)
    return min(max(f32(value), -bound), bound)


def rff(r):
    d, seed, (nu, scale) = r["d"], r["seed"], law(r)
    rows = []
    for i in range(r["m"]):
        if nu == "cauchy":
            rows.append([f32(scale * (normal(seed, NORMAL, i * d + j) / normal(seed, MIXING, i * d + j)))
                         for j in range(d)])
            continue
        draw = (lambda k: truncated(seed, k, r["truncation"])) if r["truncation"] else (lambda k: normal(seed, NORMAL, k))
        factor = scale * mixing(r, i)
        rows.append([f32(factor * draw(i * d + j)) for j in range(d)])
    return rows


def orf(r):
    d, seed, scale, measured = r["d"], r["seed"], law(r)[1], r["convention"] == "measured"
    rows = []
    for i in range(r["m"]):
        b = i // d
        draw = (lambda k: truncated(seed, k, r["truncation"])) if r["truncation"] and measured else (lambda k: normal(seed, NORMAL, k))
        q, diagonal = householder_rows([[draw((b * d + p) * d + j) for j in range(d)] for p in range(d)])
        sign = -1.0 if diagonal[i % d] < 0 and not measured else 1.0
        factor = sign * scale * mixing(r, i) * relative_norm(r, i, d) * math.sqrt(d)
        rows.append([cut(r, scale, factor * v) for v in q[i % d]])
    return rows


def matmul(a, b):
    return [[sum(x * y for x, y in zip(row, column)) for column in zip(*b)] for row in a]


def sorf(r):
    d, seed, scale = r["d"], r["seed"], law(r)[1]
    n = 1
    while n < d:
        n *= 2
    h = [[(-1) ** bin(i & j).count("1") for j in range(n)] for i in range(n)]
    rows = []
    for i in range(r["m"]):
        b = i // n
        diagonals = [[[(-1 if word(seed, SIGN, (3 * b + k) * n + j) >> 31 else 1) if j == p else 0 for j in range(n)]
                      for p in range(n)] for k in range(3)]
        product = [[int(p == j) for j in range(n)] for p in range(n)]
        for diagonal in diagonals:
            pair = (diagonal, h) if r["convention"] == "measured" else (h, diagonal)
            product = matmul(matmul(product, pair[0]), pair[1])
        factor = scale * mixing(r, i) * relative_norm(r, i, n) / n
        rows.append([cut(r, scale, factor * v) for v in product[i % n][:d]])
    return rows


def recipe(sampler, kernel, d, m, seed, norms="auto", truncation=0.0, convention="standard"):
    r = {"kernel": kernel, "gamma": 0.05, "sampler": sampler, "norms": norms, "truncation": truncation,
         "convention": convention, "d": d, "m": m, "seed": seed}
    rows = {"rff": rff, "orf": orf, "sorf": sorf}[sampler](r)
    return {"recipe": r, "omega": rows}


if __name__ == "__main__":
    cases = [
        recipe("rff", "rbf", 3, 4, 0),
        recipe("rff", "laplace", 3, 3, 5),
        recipe("rff", "matern32", 3, 4, 2**40 + 7),
        recipe("rff", "matern52", 2, 3, 1),
        recipe("rff", "arccos0", 5, 4, 3, truncation=1.5),
        recipe("orf", "rbf", 3, 7, 0),
        recipe("orf", "softmax", 4, 5, 2, norms="sqrt"),
        recipe("orf", "matern32", 3, 3, 4),
        recipe("orf", "arccos0", 4, 8, 1, convention="measured", truncation=2.0),
        recipe("orf", "arccos1", 3, 6, 8, truncation=1.0),
        recipe("orf", "rbf", 1, 3, 6),
        recipe("sorf", "rbf", 3, 7, 0),
        recipe("sorf", "rbf", 3, 7, 0, convention="measured"),
        recipe("sorf", "arccos2", 8, 9, 1, norms="chi"),
        recipe("sorf", "matern52", 5, 4, 9, norms="chi"),
        recipe("sorf", "rbf", 1, 3, 6),
    ]
    lines = ",\n".join(json.dumps(case) for case in cases)
    pathlib.Path(__file__).with_name("omega.json").write_text("[\n" + lines + "\n]\n")
