//! The docs page on configs. It has a row for each obeyed key, with the default and whether a
//! change needs a restart. It names every other key in the section for its kind.

use super::{Config, Key, Unserved, unserved};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configs.md");
const WITHOUT_EFFECT: &str = "Without effect";

fn page() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

/// The text of a section of the page.
fn section<'p>(page: &'p str, title: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("\n## {title}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// A row: the key, its default, and whether a change needs a restart.
type Row = [String; 3];

fn rows(section: &str) -> Vec<Row> {
    let rows = section.lines().filter_map(|line| {
        let cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        let cells: Vec<&str> = cells.collect();
        let [key, default, _effect, restart]: [&str; 4] = cells.try_into().ok()?;
        // Some defaults are followed by a remark in brackets: "`10000` (10 s)".
        let default = default.split(" (").next().unwrap_or_default();
        key.starts_with('`').then(|| [key, default, restart].map(str::to_owned))
    });
    rows.collect()
}

fn row(key: &Key<Config>, defaults: &Config) -> Row {
    let quoted = |text: &str| format!("`{text}`");
    let default = key.get(defaults).text().filter(|text| !text.is_empty());
    let default = default.map_or_else(|| "none".to_owned(), |text| quoted(&text));
    let restart = if key.flags.dynamic { "no" } else { "yes" };
    [quoted(key.name), default, restart.to_owned()]
}

#[test]
fn each_obeyed_key_has_one_row_with_its_default() {
    let (page, defaults) = (page(), Config::default());
    let obeyed = Config::KEYS.iter().filter(|key| key.flags.obeyed);
    let mut expected: Vec<Row> = obeyed.map(|key| row(key, &defaults)).collect();
    let mut found = rows(section(&page, "Obeyed"));
    expected.sort();
    found.sort();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len());
    let without_effect = section(&page, WITHOUT_EFFECT);
    for [key, ..] in expected {
        assert!(!without_effect.contains(&key), "{key} has an effect");
    }
}

#[test]
fn other_keys_stand_in_their_section() {
    let page = page();
    let inert = Config::KEYS.iter().filter(|key| !key.flags.obeyed);
    let inert = inert.map(|key| (key.name, WITHOUT_EFFECT));
    let unserved = unserved::names().map(|name| match unserved::unserved(name, "anything") {
        Some(Unserved::Refused(_)) => (name, "Refused"),
        Some(Unserved::WithoutEffect) | None => (name, WITHOUT_EFFECT),
    });
    for (name, title) in inert.chain(unserved) {
        assert!(section(&page, title).contains(&format!("`{name}`")), "{name} in {title}");
    }
}
