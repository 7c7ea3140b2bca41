"""Can these weights still learn? Looks and probes at any network in any loop."""

from adalin.monitor._callbacks import huggingface_callback, lightning_callback, sb3_callback
from adalin.monitor._examine import examine, look_at
from adalin.monitor._inputs import Call, call_of
from adalin.monitor._look import Look
from adalin.monitor._monitor import Monitor
from adalin.monitor._probe import ProbeResult, probe, probe_calls
from adalin.monitor._task import examine_task
from adalin.monitor._twins import State, Twins
from adalin.monitor._verdict import Diagnosis, Remedy, Sign, diagnose, signs_of

__all__ = [
    "Call",
    "Diagnosis",
    "Look",
    "Monitor",
    "ProbeResult",
    "Remedy",
    "Sign",
    "State",
    "Twins",
    "call_of",
    "diagnose",
    "examine",
    "examine_task",
    "huggingface_callback",
    "lightning_callback",
    "look_at",
    "probe",
    "probe_calls",
    "sb3_callback",
    "signs_of",
]
