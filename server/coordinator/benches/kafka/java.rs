//! Runs a Java program of this folder, which answers lines on its standard input.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub(crate) struct Java {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Java {
    /// Starts the program. `jars` is the folder with Kafka's jars.
    pub(crate) fn start(jars: &Path, source: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/kafka");
        let mut process = Command::new("java")
            .args(["-Xmx1g", "-cp"])
            .arg(jars.join("*"))
            .arg(folder.join(source))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    /// Sends a line. It is flushed at the next [`Self::read`] at the latest.
    pub(crate) fn send(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Reads the next line of the answer.
    pub(crate) fn read(&mut self) -> String {
        self.input.flush().unwrap();
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "Kafka's process has ended");
        line
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
