//! The facts about a host, a config and a data directory: names and values, both text.

use std::collections::BTreeMap;

/// Values by name. A knob (a setting of the host) has one fact `NAME@FILE` for each of its files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts(BTreeMap<String, String>);

impl Facts {
    /// Parses the output of [`Self::text`].
    ///
    /// # Errors
    /// The first line without a tab.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pair = |line: &str| {
            let (name, value) = line.split_once('\t').ok_or_else(|| line.to_owned())?;
            Ok((name.to_owned(), value.to_owned()))
        };
        lines.map(pair).collect::<Result<_, _>>().map(Self)
    }

    /// The facts as text, one per line: name, tab, value.
    pub fn text(&self) -> String {
        self.0.iter().map(|(name, value)| format!("{name}\t{value}\n")).collect()
    }

    /// Sets a fact. Line breaks and tabs in the value become blanks.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        let value = value.to_string().replace(['\n', '\t'], " ");
        self.0.insert(name.to_owned(), value);
    }

    pub fn set_file(&mut self, knob: &str, file: &str, value: &str) {
        self.set(&format!("{knob}@{file}"), value);
    }

    /// The value of a fact. For a knob with several files: the different values, joined by commas.
    pub fn value(&self, name: &str) -> Option<String> {
        if let Some(value) = self.0.get(name) {
            return Some(value.clone());
        }
        let mut values: Vec<&str> = self.files(name).map(|(_, value)| value).collect();
        values.sort_unstable();
        values.dedup();
        (!values.is_empty()).then(|| values.join(","))
    }

    /// The files of a knob, each with its value.
    pub fn files<'f>(&'f self, knob: &str) -> impl Iterator<Item = (&'f str, &'f str)> {
        let prefix = format!("{knob}@");
        let from = self.0.range(prefix.clone()..);
        from.map_while(move |(name, value)| Some((name.strip_prefix(&prefix)?, value.as_str())))
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    pub fn is(&self, name: &str, value: &str) -> bool {
        self.0.get(name).is_some_and(|it| it == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_as_they_are_written() {
        let mut facts = Facts::default();
        facts.set("a", "1\t2\n3");
        facts.set_file("b", "/proc/b", "7");
        facts.set_file("b", "/proc/a", "7");
        facts.set_file("b", "/proc/c", "8");
        facts.set("bc", "x");
        assert_eq!(Facts::parse(&facts.text()), Ok(facts.clone()));
        assert_eq!(facts.value("a").as_deref(), Some("1 2 3"));
        assert_eq!(facts.value("b").as_deref(), Some("7,8"));
        assert_eq!(facts.files("b").count(), 3);
        assert_eq!(facts.value("c"), None);
        assert_eq!(Facts::parse("# why\n\nno tab"), Err("no tab".to_owned()));
    }
}
