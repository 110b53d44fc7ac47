//! The page on configs has every key where it belongs. `UPDATE_EXPECT=1` writes the lists of keys
//! that have a row.

use super::{Config, Key, Unserved, unserved};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configs.md");
const COLUMNS: usize = 110;

fn page() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

/// The text of a section of the page.
fn section<'p>(page: &'p str, title: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("## {title}\n")).unwrap();
    rest.split("\n## ").next().unwrap()
}

/// The keys that are obeyed, or those that are not, as the page lists them.
fn list(obeyed: bool) -> String {
    let keys = Config::KEYS.iter().filter(|key| key.flags.obeyed == obeyed);
    let word =
        |key: &Key<Config>| format!("`{}`{}", key.name, if key.flags.dynamic { "*" } else { "" });
    let words: Vec<_> = keys.map(word).collect();
    wrapped(&words)
}

fn wrapped(words: &[String]) -> String {
    let (mut text, mut column) = (String::new(), 0);
    for (index, word) in words.iter().enumerate() {
        let comma = if index + 1 < words.len() { "," } else { "" };
        let width = word.len() + comma.len();
        if column > 0 && column + 1 + width > COLUMNS {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text += word;
        text += comma;
        column += width;
    }
    text
}

/// The paragraph of a section that is a list of keys.
fn listed<'p>(page: &'p str, title: &str) -> &'p str {
    section(page, title).split("\n\n").find(|it| it.trim_start().starts_with('`')).unwrap().trim()
}

#[test]
fn keys_with_a_row_are_listed() {
    for (title, obeyed) in [("Obeyed", true), ("Without effect", false)] {
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            let page = page();
            std::fs::write(PATH, page.replacen(listed(&page, title), &list(obeyed), 1)).unwrap();
        }
        let page = page();
        let (found, list) = (listed(&page, title), list(obeyed));
        assert_eq!(found, list, "{title}: UPDATE_EXPECT=1 writes this list");
    }
}

#[test]
fn keys_without_a_row_stand_in_their_section() {
    let page = page();
    for name in unserved::names() {
        let title = match unserved::unserved(name, "anything") {
            Some(Unserved::Refused(_)) => "Refused",
            _ => "Without effect",
        };
        assert!(section(&page, title).contains(&format!("`{name}`")), "{name} in {title}");
    }
}
