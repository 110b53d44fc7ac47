//! Errors and warnings about a configuration. All of them are reported at once. Those about a file
//! name the file and the line.

use super::{Config, TopicConfig, unserved};
use std::fmt;

/// An error about a key, or a warning about a key without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line in the file; None for the command line.
    pub line: Option<usize>,
    pub key: String,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The key has no effect in muster.
    WithoutEffect,
    /// The key has no effect, but its value promises something. `instead` says what muster does.
    Promise { value: String, instead: &'static str },
    /// The operator would rely on a feature that muster does not have; the text names it.
    Refused(&'static str),
    /// The key is unknown to muster and to Kafka. `similar` is the most similar known key.
    Unknown { similar: Option<&'static str> },
    /// Another error; the text describes it.
    Wrong(String),
}

/// All findings about a file and a command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Findings {
    /// The name of the file, which the messages show.
    pub file: Option<String>,
    pub all: Vec<Finding>,
}

impl Findings {
    /// The findings that prevent startup.
    pub fn fatal(&self) -> impl Iterator<Item = &Finding> {
        self.all.iter().filter(|finding| match finding.kind {
            Kind::WithoutEffect | Kind::Promise { .. } => false,
            Kind::Refused(_) | Kind::Unknown { .. } | Kind::Wrong(_) => true,
        })
    }

    /// The findings about keys that promise something that muster does not do.
    pub fn promises(&self) -> impl Iterator<Item = &Finding> {
        self.all.iter().filter(|finding| matches!(finding.kind, Kind::Promise { .. }))
    }

    /// The report: errors that prevent startup, then promises, then the keys without effect on one
    /// line, and a summary.
    pub fn report(&self) -> String {
        let file = self.file.as_deref().unwrap_or("the configs");
        let inert = self.all.iter().filter(|finding| finding.kind == Kind::WithoutEffect);
        let inert: Vec<&str> = inert.map(|finding| &*finding.key).collect();
        let (fatal, promises) = (self.fatal().count(), self.promises().count());
        let of_their_own = self.fatal().chain(self.promises());
        let mut lines: Vec<String> = of_their_own.map(|finding| self.line(finding)).collect();
        if !inert.is_empty() {
            lines.push(format!("{file}: without effect in muster: {}", inert.join(", ")));
        }
        let starts = match fatal {
            0 => "muster starts with this".to_owned(),
            _ => format!("muster does not start with this: {fatal} to change"),
        };
        let inert = inert.len();
        lines.push(format!("{file}: {starts}; not kept: {promises}; without effect: {inert}"));
        lines.join("\n") + "\n"
    }

    /// A finding with its file and line, if it has them, in the form that compilers use.
    pub fn line(&self, finding: &Finding) -> String {
        match (&self.file, finding.line) {
            (Some(file), Some(line)) => format!("{file}:{line}: {finding}"),
            (None, Some(line)) => format!("line {line}: {finding}"),
            (_, None) => finding.to_string(),
        }
    }

    pub(super) fn add(&mut self, line: Option<usize>, key: &str, kind: Kind) {
        self.all.push(Finding { line, key: key.to_owned(), kind });
    }
}

/// Prints the findings that prevent startup, one on each line.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.fatal().map(|finding| self.line(finding)).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Findings {}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        match &self.kind {
            Kind::WithoutEffect => write!(f, "{key}: without effect in muster"),
            Kind::Promise { value, instead } => {
                write!(f, "{key}={value}: not kept, as {instead}")
            }
            Kind::Refused(missing) => write!(f, "{key}: refused, as {missing}"),
            Kind::Unknown { similar: None } => write!(f, "unknown key \"{key}\""),
            Kind::Unknown { similar: Some(similar) } => {
                write!(f, "unknown key \"{key}\": did you mean {similar}?")
            }
            Kind::Wrong(what) => f.write_str(what),
        }
    }
}

/// A similar key is suggested for a name with at most this number of typing errors.
const TYPING_ERRORS_MAX: usize = 3;

/// A known key that the name was probably meant to be.
pub(super) fn similar(name: &str) -> Option<&'static str> {
    if let Some(of_topics) = TopicConfig::key(name) {
        return of_topics.synonyms.first().copied();
    }
    let name = name.trim().to_ascii_lowercase().replace('_', ".");
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let errors_max = TYPING_ERRORS_MAX.min(name.len() / 4);
    let known = Config::KEYS.iter().map(|key| key.name).chain(unserved::names());
    // A missing or additional character is an error. So keys whose length differs by more than
    // `errors_max` need not be compared.
    let near = known.filter(|known| known.len().abs_diff(name.len()) <= errors_max);
    let distances = near.map(|known| (strsim::damerau_levenshtein(&name, known), known));
    distances.min().filter(|(errors, _)| *errors <= errors_max).map(|(_, known)| known)
}

/// The longest name that is compared with keys. A longer name resembles no key, and comparing it
/// would be slow.
const NAME_BYTES_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_few_wrong_characters_is_recognised() {
        for (name, meant) in [
            ("num.partitons", Some("num.partitions")),
            ("log_dirs", Some("log.dirs")),
            ("Log.Dirs", Some("log.dirs")),
            ("num.partitions ", Some("num.partitions")),
            ("offset.topic.num.partitions", Some("offsets.topic.num.partitions")),
            ("advertised.listener", Some("advertised.listeners")),
            ("zookeeper", None),
            ("retention.ms", Some("log.retention.ms")),
            ("remote.storage.enable", None),
            ("no.such.key", None),
            ("this", None),
            ("", None),
        ] {
            assert_eq!(similar(name), meant, "{name}");
        }
    }
}
