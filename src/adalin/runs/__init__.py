"""What all runs share: a definition, a folder, exact checkpoints, events. It knows no engine and no kind of runs."""

from adalin.runs._checkpoint import PIECE_NAME, Checkpoint, CheckpointError
from adalin.runs._disk import RunFolderError, check_writable, plain_disk_errors, read_file, write_atomically
from adalin.runs._events import Cause, Emit, Ended, Event, Problem, Progress, Resumed, Row, ignore
from adalin.runs._folder import MANIFEST, RunFolder, RunInUseError, Snapshot
from adalin.runs._kind import Comparison, Description, Kind, Trial, kind_of, kinds
from adalin.runs._manifest import made_with
from adalin.runs._paths import path_part, shown_path
from adalin.runs._position import START, Position
from adalin.runs._result import Result, find_results, resume, wanted_run
from adalin.runs._rows import MOST_TASKS
from adalin.runs._run import ENDED, Run, check_comparison, check_different, read_run
from adalin.runs._schema import Schema, parse_json, read_json
from adalin.runs._session import LOCK_SECONDS, Session, never

__all__ = [
    "ENDED",
    "LOCK_SECONDS",
    "MANIFEST",
    "MOST_TASKS",
    "PIECE_NAME",
    "START",
    "Cause",
    "Checkpoint",
    "CheckpointError",
    "Comparison",
    "Description",
    "Emit",
    "Ended",
    "Event",
    "Kind",
    "Position",
    "Problem",
    "Progress",
    "Result",
    "Resumed",
    "Row",
    "Run",
    "RunFolder",
    "RunFolderError",
    "RunInUseError",
    "Schema",
    "Session",
    "Snapshot",
    "Trial",
    "check_comparison",
    "check_different",
    "check_writable",
    "find_results",
    "ignore",
    "kind_of",
    "kinds",
    "made_with",
    "never",
    "parse_json",
    "path_part",
    "plain_disk_errors",
    "read_file",
    "read_json",
    "read_run",
    "resume",
    "shown_path",
    "wanted_run",
    "write_atomically",
]
