//! The help text about all keys, for the command line.

use super::unserved::{Unserved, names, unserved};
use super::value::{ConfigType, Valid};
use super::{Config, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// Lists all keys: keys that muster obeys, with defaults and bounds; keys without effect; and keys
/// that muster refuses, with the reason.
pub fn help() -> String {
    let mut out = String::from(
        "Keys that muster obeys. A key with a star can be altered while the server runs, for one\n\
         broker or for all (kafka-configs --alter --entity-type brokers).\n\n",
    );
    let defaults = Config::default();
    let obeyed = Config::KEYS.iter().filter(|key| key.flags.obeyed);
    obeyed.for_each(|key| line(key, &defaults, &mut out));
    out += "\nAccepted and checked, but without effect in muster:\n\n";
    let inert = Config::KEYS.iter().filter(|key| !key.flags.obeyed);
    inert.for_each(|key| line(key, &defaults, &mut out));
    out += "\nAccepted with any value, and without effect in muster:\n\n";
    let mut refused: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names().collect::<BTreeSet<_>>() {
        match unserved(name, "anything") {
            Some(Unserved::Refused(missing)) => refused.entry(missing).or_default().push(name),
            Some(Unserved::WithoutEffect) | None => {
                let _ = writeln!(out, "  {name}");
            }
        }
    }
    out += "\nRefused, because muster does not have what they ask for:\n";
    for (missing, names) in refused {
        let _ = write!(out, "\n  {missing}:\n");
        names.iter().for_each(|name| out += &format!("    {name}\n"));
    }
    out
}

fn line(key: &Key<Config>, defaults: &Config, out: &mut String) {
    let star = if key.flags.dynamic && key.flags.obeyed { "*" } else { "" };
    let default = key.get(defaults).text().unwrap_or_default();
    let of_type = key.config_type.name();
    let bounds = key.valid.bounds();
    let _ = writeln!(out, "  {}{star} = {default}  ({of_type}{bounds})", key.name);
}

impl ConfigType {
    fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Int => "int",
            Self::Short => "short",
            Self::Long => "long",
            Self::Double => "double",
            Self::List => "list",
            Self::Password => "password",
            Self::Unknown => "of any type",
        }
    }
}

impl Valid {
    /// The bounds in words, such as ", at least 1". The help text prints them after the config's
    /// type.
    fn bounds(self) -> String {
        match self {
            Self::Any => String::new(),
            Self::Between(min, i64::MAX) => format!(", at least {min}"),
            Self::Between(min, max) => format!(", {min} to {max}"),
            Self::Ratio => ", 0 to 1".to_owned(),
            Self::GzipLevel => ", 1 to 9, or -1".to_owned(),
            Self::OneOf(words) | Self::OneOfIgnoringCase(words) => {
                format!(", {}", words.join(" or "))
            }
            Self::EachOneOf(words) => format!(", each of {}", words.join(", ")),
            Self::ThrottledReplicas(_) => ", * or partition:broker".to_owned(),
            Self::OffsetReset => ", latest, earliest or by_duration:".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_stands_once_with_what_becomes_of_it() {
        let text = help();
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        let (inert, refused) = (place("\nAccepted and checked"), place("\nRefused"));
        let obeyed = place("  group.max.size = 2147483647  (int, at least 1)\n");
        assert!(obeyed < inert);
        assert!(place("  max.connections* = 2147483647  (int, at least 1)\n") < inert);
        let threads = place("  log.cleaner.threads = 1  (int, at least 0)\n");
        assert!(threads > inert && threads < refused);
        assert!(place("    delegation.token.secret.key\n") > refused);
        let all = Config::KEYS.iter().map(|key| key.name).chain(names());
        for name in all {
            let is_key = |line: &&str| {
                line.split_whitespace().next().is_some_and(|it| it.trim_end_matches('*') == name)
            };
            assert_eq!(text.lines().filter(is_key).count(), 1, "{name}");
        }
    }
}
