"""A table, things on it and a robot's three tools, without the robot: what is moved where is only noted."""

from dataclasses import dataclass, field

from chainofcode.emulator import read_only


@dataclass
class World:
    """What lies on the table, and where it should be in the end."""

    objects: list[str]
    wanted: dict[str, list[str]]
    placed: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @read_only
    def detect_objects(self) -> list[str]:
        """The names of all objects on the table, containers too."""
        return list(self.objects)

    def pick_place(self, obj: str, target: str) -> None:
        """Pick up one object and put it into, or onto, another."""
        if obj == target or not {obj, target} <= {*self.objects}:
            raise ValueError(f"cannot put {obj!r} on {target!r}: there are {', '.join(self.objects)}")
        self.placed[obj] = target

    def say(self, text: str) -> None:
        """Say something to the person."""
        self.said.append(text)

    @property
    def is_done(self) -> bool:
        """Whether everything lies where it should, nothing else was moved, and the person was told."""
        return self.placed == {obj: target for target, objs in self.wanted.items() for obj in objs} and bool(self.said)
