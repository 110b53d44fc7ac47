//! A run with which the test interferes.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, Command, Stdio};

use tempfile::TempDir;

use crate::fake::Fake;
use crate::run::{PROGRAM, write};

/// A run that is under way.
pub(crate) struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
}

impl Running {
    pub(crate) fn start(
        fake: &Fake,
        directory: &TempDir,
        scenario: &str,
        options: &[&str],
    ) -> Self {
        let options = [&["--keep-up", "1min"], options].concat();
        Self::start_by(Command::new(PROGRAM), fake, directory, scenario, &options)
    }

    /// Starts a run with this command. The arguments of the run are appended.
    pub(crate) fn start_by(
        mut command: Command,
        fake: &Fake,
        directory: &TempDir,
        scenario: &str,
        options: &[&str],
    ) -> Self {
        let file = write(directory, scenario);
        command.arg(file).args(["--bootstrap", &fake.bootstrap()]).args(options);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line that contains `word`.
    pub(crate) fn wait_for(&mut self, word: &str) {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        assert!(lines.any(|line| line.contains(word)), "never printed: {word}");
    }

    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Waits for the end of the run. Returns its status and its output, with the last lines of
    /// standard error.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let errors: Vec<String> = self.lines.map(Result::unwrap).collect();
        let mut summary = errors.join("\n");
        self.child.stdout.take().unwrap().read_to_string(&mut summary).unwrap();
        (self.child.wait().unwrap().code(), summary)
    }
}
