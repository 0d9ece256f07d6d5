"""The pictures of a run: the choice of renderer, and the folder of frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gpubench.base.errors import UserError
from gpubench.registry import require_known
from gpubench.simulate import perspective, slab
from gpubench.simulate.frames import read_frames, write_animation, write_panel
from gpubench.simulate.renderers import AUTO
from gpubench.workloads.workload import Snapshot

Draw = Callable[[Snapshot, Path, str, str | None], None]

RENDERERS: dict[str, Draw] = {
    perspective.NAME: perspective.write_frame,
    slab.NAME: slab.write_frame,
}


def require_possible(renderer: str) -> None:
    """Raise UserError for a renderer that does not exist, or cannot draw here."""
    require_known("renderer", renderer, (AUTO, *RENDERERS))
    if renderer == perspective.NAME and (reason := perspective.why_not()):
        raise UserError(f"{reason}; or say --renderer {slab.NAME}")


def choose(snapshot: Snapshot, say: Callable[[str], None]) -> str:
    """Return the default renderer for the frames of a run.

    Particles coloured by speed are drawn in perspective; if that is impossible, as a slab, and
    `say` gets the reason. Species are always drawn as a slab, which shows the inside of the box.
    """
    if snapshot.colour_by == "species":
        return slab.NAME
    if reason := perspective.why_not():
        say(f"pictures show a slab, drawn by {slab.NAME}: {reason}")
        return slab.NAME
    return perspective.NAME


class FrameFolder:
    """A folder of frames, named by their steps.

    title: above each frame. run: the id of the run, stored in each.
    renderer: one of RENDERERS, or AUTO, which in a resumed run is the renderer of the earlier
        frames. say: called with the reason if AUTO's first choice is unavailable.
    Raises UserError for a renderer that cannot draw, and where the folder already has frames,
    unless they are of the resumed run.
    """

    def __init__(
        self,
        folder: Path,
        title: str,
        *,
        run: str | None = None,
        is_resumed: bool = False,
        renderer: str = AUTO,
        say: Callable[[str], None] = lambda text: None,
    ) -> None:
        require_possible(renderer)
        if any(folder.glob("frame-*.png")):
            frames = read_frames(folder) if is_resumed else []
            if not frames or any(frame.run != run for frame in frames):
                raise UserError(f"{folder} has the frames of another run: name a new folder")
            before = frames[-1].renderer
            if renderer not in (AUTO, before):
                raise UserError(f"{folder} has frames by {before}: go on with --renderer {before}")
            require_possible(before)
            renderer = before
        self.folder = folder
        self._title, self._run = title, run
        self._renderer = renderer
        self._say = say

    def write(self, snapshot: Snapshot) -> None:
        """Add the frame of a snapshot; raise UserError where it cannot be written."""
        if self._renderer == AUTO:
            self._renderer = choose(snapshot, self._say)
        path = self.folder / f"frame-{snapshot.step:010d}.png"
        RENDERERS[self._renderer](snapshot, path, self._title, self._run)

    def finish(self) -> tuple[Path, Path] | None:
        """Write animation.gif and panel.png of all frames in the folder; None without frames."""
        frames = read_frames(self.folder)
        if not frames:
            return None
        animation, panel = self.folder / "animation.gif", self.folder / "panel.png"
        write_animation(frames, animation)
        write_panel(frames, panel)
        return animation, panel
