//! Rules about single lines, and about the number of lines.

use crate::{Breach, Canary, Rule, Source, Workspace};

/// The most columns, as in rustfmt.toml; rustfmt does not check comments and strings.
const COLUMNS: usize = 100;

/// The most lines of a file.
const LINES: usize = 500;

/// The key of rules that count all breaches together.
pub(super) const ALL: &str = "all";

pub(super) struct LongLines;

impl Rule for LongLines {
    fn name(&self) -> &'static str {
        "long_lines"
    }

    fn asks(&self) -> &'static str {
        "a line of code has at most 100 columns"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let is_long = |line: &str| line.chars().count() > COLUMNS;
        workspace.code.iter().flat_map(|it| found(it, is_long)).collect()
    }

    fn canary(&self) -> Canary {
        let of = |columns: usize| format!("//{}\n", "é".repeat(columns - 2));
        let long = of(COLUMNS + 1);
        let place = format!("a.rs:2: {}", long.trim());
        Canary::default()
            .breaks(&[("a.rs", &format!("//! a\n{long}"))], &[&place])
            .keeps(&[("a.rs", &of(COLUMNS)), ("a.md", &long)])
    }
}

pub(super) struct LongFiles;

impl Rule for LongFiles {
    fn name(&self) -> &'static str {
        "long_files"
    }

    fn asks(&self) -> &'static str {
        "a file of code has at most 500 lines"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let sized = workspace.code.iter().map(|it| (it, it.text.lines().count()));
        let long = sized.filter(|(_, lines)| *lines > LINES);
        long.map(|(file, lines)| Breach::sized(&file.path, lines)).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(&[("a.rs", &"//\n".repeat(LINES + 1))], &["a.rs: 501"])
            .keeps(&[("a.rs", &"//\n".repeat(LINES)), ("a.md", &"\n".repeat(LINES + 1))])
    }
}

pub(super) struct BoolMatches;

impl Rule for BoolMatches {
    fn name(&self) -> &'static str {
        "bool_matches"
    }

    fn asks(&self) -> &'static str {
        "an `if` decides on a bool, not a `match`"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let is_arm = |line: &str| line.trim_start().starts_with("true =>");
        workspace.judged().flat_map(|it| found(it, is_arm)).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(
                &[(
                    "a.rs",
                    "fn f() {\n    match is {\n        true => 1,\n        false => 2,\n    }\n}",
                )],
                &["a.rs:3: true => 1,"],
            )
            .keeps(&[("a.rs", "fn f() {\n    (true, 1) => 1,\n}")])
    }
}

/// The lines of a file for which `breaks` holds.
pub(super) fn found(
    source: &Source,
    breaks: impl Fn(&str) -> bool,
) -> impl Iterator<Item = Breach> {
    let lines = source.lines().filter(move |(_, line)| breaks(line));
    lines.map(|(number, line)| Breach::one(ALL, place(source, number, line)))
}

pub(super) fn place(source: &Source, number: usize, line: &str) -> String {
    format!("{}:{number}: {}", source.path, line.trim())
}
