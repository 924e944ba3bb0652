# SPDX-License-Identifier: Apache-2.0
"""How far apart colours are for eyes that lack a kind of cone. Simulation after Machado, Oliveira and Fernandes (2009),
full severity, on linear RGB; distance as CIE 1976 delta E in L*a*b*.
"""
import itertools

DEFICIENCIES = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
RGB_TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)


def _times(matrix, vector):
    return [sum(factor * value for factor, value in zip(row, vector)) for row in matrix]


def _linear(hexadecimal):
    digits = hexadecimal.strip().lstrip("#")
    channels = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    return [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055)**2.4 for value in channels]


def _lab(linear):
    xyz = [max(0.0, value) / white for value, white in zip(_times(RGB_TO_XYZ, linear), WHITE)]
    x, y, z = (value**(1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116 for value in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other, deficiency):
    seen = [_lab([min(1.0, max(0.0, value)) for value in _times(DEFICIENCIES[deficiency], _linear(colour))])
            for colour in (one, other)]
    return sum((a - b)**2 for a, b in zip(*seen))**0.5


def closest_pair(colours):
    """(distance, one, other, deficiency) of the two that are hardest to distinguish."""
    return min((distance(one, other, deficiency), one, other, deficiency)
               for one, other in itertools.combinations(colours, 2) for deficiency in DEFICIENCIES)
