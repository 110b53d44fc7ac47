//! The page docs/incidents.md: what the log, the metrics and the page showed in each incident.

use serde_json::Value;

const HEAD: &str = "\
# Incidents

This page shows what log, metrics and page say during an incident. A test causes each incident on a
real server, checks that the evidence names the cause, and writes this page
(`muster/tests/end_to_end/incidents.rs`, with `MUSTER_INCIDENTS=docs/incidents.md`).
[Alerts](alerts.md) says what to do. A wrong clock is missing, because the test cannot change the
clock of its machine.
";

#[derive(Default)]
pub struct Notes {
    page: String,
    /// Why the machine could not run some of the incidents.
    missing: Option<String>,
}

impl Notes {
    pub fn incident(&mut self, title: &str, symptom: &str) {
        self.page += &format!("\n## {title}\n\n{symptom}\n");
    }

    /// Adds a line of the log, without its time.
    pub fn log(&mut self, line: &str) {
        let line = line.split_once("Z ").map_or(line, |(_, rest)| rest).trim();
        self.said("The log", line);
    }

    pub fn metric(&mut self, line: &str) {
        self.said("`/metrics`", line);
    }

    /// Adds a part of what the page shows about a group. `path` may end with words that describe
    /// the part.
    pub fn page(&mut self, path: &str, value: &Value) {
        let (path, part) = path.split_once(' ').map_or((path, ""), |(path, part)| (path, part));
        let whence = format!("The page, `/api/v1/{path}` {part}");
        self.said(whence.trim_end(), &value.to_string());
    }

    pub fn said(&mut self, whence: &str, words: &str) {
        self.page += &format!("\n{whence}:\n\n    {words}\n");
    }

    pub fn cause(&mut self, words: &str) {
        self.page += &format!("\n**Cause**: {words}\n");
    }

    pub fn skipped(&mut self, missing: String) {
        self.page += "\nNot run: the machine mounts no file systems for tests.\n";
        self.missing = Some(missing);
    }

    /// Writes the page. The test counts as skipped if one of the incidents was skipped.
    pub fn write(self) {
        println!("{}", self.page);
        if let Some(path) = std::env::var_os("MUSTER_INCIDENTS") {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
            std::fs::write(std::path::Path::new(root).join(path), HEAD.to_owned() + &self.page)
                .unwrap();
        }
        if let Some(missing) = self.missing {
            test_skips::skip(missing);
        }
    }
}
