//! Tests that muster has the commands that the documents name.

use super::Cli;
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn the_commands_of_the_documents_are_accepted() {
    let (mut count, mut refused) = (0, Vec::new());
    for page in pages() {
        for command in commands(&fs::read_to_string(&page).unwrap()) {
            count += 1;
            if let Err(error) = Cli::try_parse_from(words(&command)) {
                refused.push(format!("{}: {command}: {}", page.display(), error.kind()));
            }
        }
    }
    assert_eq!(refused, [] as [String; 0]);
    assert!(count >= 20, "{count} commands");
}

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|it| it.extension().is_some_and(|extension| extension == "md"));
    pages.chain([root.join("README.md")]).collect()
}

/// The commands of a page: its indented lines that begin with `muster`. A line that ends with a
/// backslash is joined with the next one.
fn commands(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let code = joined.lines().filter_map(|line| line.strip_prefix("    "));
    let commands = code.filter(|line| line.starts_with("muster ") && !line.contains("[the same"));
    commands.map(str::to_owned).collect()
}

/// The words of a command. Comments, redirections of input, and the output beside the command are
/// left out. So are all alternatives but the first (`A | B`). `N` and `POSITION` become 1.
fn words(command: &str) -> Vec<String> {
    let ends = [" #", " <", "    "].map(|end| command.find(end).unwrap_or(command.len()));
    let command = &command[..ends.into_iter().min().unwrap()];
    let mut words = Vec::new();
    let mut is_other = false;
    for word in command.split_whitespace() {
        is_other |= word == "|";
        let kept = word.replace(['[', ']'], "");
        if !is_other && kept != "..." {
            words.push(if matches!(&*kept, "N" | "POSITION") { "1".to_owned() } else { kept });
        }
        is_other &= !word.ends_with(']');
    }
    words
}
