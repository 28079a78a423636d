#!/usr/bin/env python3
"""Golden values of test_cosmology.cpp from Colossus (Diemer 2018, arXiv:1712.04512): writes cosmology.json beside this
file.

Run: python3 tests/golden/make_cosmology_golden.py   (pip install colossus)
"""
import json
import pathlib

import numpy as np
from colossus.cosmology import cosmology, power_spectrum

CASES = [
    {"omega_m": 0.3, "sigma_8": 0.8, "n_s": 0.96, "h_0": 70.0, "omega_b": 0.045},
    {"omega_m": 0.27, "sigma_8": 0.88, "n_s": 0.864, "h_0": 63.0, "omega_b": 0.045},
    {"omega_m": 0.33, "sigma_8": 0.72, "n_s": 1.056, "h_0": 77.0, "omega_b": 0.045},
    {"omega_m": 0.3, "sigma_8": 0.8, "n_s": 0.96, "h_0": 70.0, "omega_b": 0.12},
]
K = [1e-4, 1e-3, 5e-3, 0.01, 0.02, 0.05, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0]
REDSHIFTS = [0.0, 0.5, 1.5, 3.0]
T_CMB = 2.7255

cases = []
for case in CASES:
    model = cosmology.setCosmology("case", flat=True, H0=case["h_0"], Om0=case["omega_m"], Ob0=case["omega_b"],
                                   sigma8=case["sigma_8"], ns=case["n_s"], Tcmb0=T_CMB, relspecies=False,
                                   persistence="")
    k = np.array(K)
    transfer = power_spectrum.modelEisenstein98(k, case["h_0"] / 100, case["omega_m"], case["omega_b"], T_CMB)
    cases.append(case | {
        "transfer": transfer.tolist(),
        "power": model.matterPowerSpectrum(k, 0.0, model="eisenstein98").tolist(),
        "growth": model.growthFactor(np.array(REDSHIFTS)).tolist(),
    })
out = pathlib.Path(__file__).with_name("cosmology.json")
out.write_text(json.dumps({"k": K, "redshifts": REDSHIFTS, "cases": cases}, separators=(",", ":")) + "\n")
