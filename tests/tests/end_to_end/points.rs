//! The points of a daemon under test: what happens at them is written into a directory that its processes look into.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use grounding_proto::environment::GROUNDING_POINTS;
use grounding_tests::{TestEnvironment, wait_for};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// Where a process is held.
const FIFO: &str = "held";

/// The rules of one environment.
pub(crate) struct Points {
    directory: PathBuf,
}

/// A process that is held at a point until this is dropped, or until it is killed.
pub(crate) struct Held {
    _other_end: File,
}

impl Points {
    /// Has the programs of an environment look for rules.
    pub(crate) fn of(environment: &mut TestEnvironment) -> Self {
        let directory = environment.path("points");
        std::fs::create_dir(&directory).expect("a directory below the home");
        mknodat(CWD, directory.join(FIFO), FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
        environment.set(GROUNDING_POINTS, &directory);
        Self { directory }
    }

    /// Has whoever comes to a point be held there; the point may be narrowed to paths that have a part.
    pub(crate) fn hold(&self, point: &str) {
        self.rule(&format!("{FIFO} {point}"));
    }

    /// Has a step of each file operation fail whose path has a part.
    pub(crate) fn fail(&self, step: &str, part: &str, error: i32) {
        // Counted by tests/reliability.
        println!("figure: fault");
        self.rule(&format!("{error} {step} {part}"));
    }

    /// Has nothing happen any more; who is held stays so.
    pub(crate) fn clear(&self) {
        std::fs::remove_file(self.directory.join("rules")).expect("there were rules");
    }

    /// Waits until a process is held.
    pub(crate) fn wait_until_held(&self) -> Held {
        let path = self.directory.join(FIFO);
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        wait_for("a process at the point", || {
            // It can be opened only while somebody is at the other end.
            let opened: io::Result<_> = File::options().write(true).custom_flags(nonblocking).open(&path);
            opened.map(|file| Held { _other_end: file }).map_err(|error| error.to_string())
        })
    }

    fn rule(&self, rule: &str) {
        // A reader must never see half of it.
        let (written, rules) = (self.directory.join("next"), self.directory.join("rules"));
        std::fs::write(&written, format!("{rule}\n")).and_then(|()| std::fs::rename(written, rules)).expect("written");
    }
}
