//! The pages of the documentation: each is in the table of contents, and each link leads somewhere.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders whose pages describe a day, or are what a test expects.
const PASSED_OVER: [&str; 4] = ["target", "results", "expected", "node_modules"];

#[test]
fn the_summary_names_each_page_once() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let named: Vec<PathBuf> = links(&summary).map(|link| normal(&docs.join(link))).collect();
    let unique: BTreeSet<&PathBuf> = named.iter().collect();
    assert_eq!(unique.len(), named.len(), "a page is named twice");
    let pages = pages().into_iter().filter(|it| it.parent() == Some(&docs));
    let missing: Vec<PathBuf> =
        pages.filter(|it| !it.ends_with("SUMMARY.md") && !unique.contains(it)).collect();
    assert_eq!(missing, [] as [PathBuf; 0], "docs/SUMMARY.md lacks pages");
}

#[test]
fn each_link_leads_somewhere() {
    let lost: Vec<String> = pages().iter().flat_map(|page| lost_links(page)).collect();
    assert_eq!(lost, [] as [String; 0], "links that lead nowhere");
}

/// A link to a heading is by GitHub's name for it, which is mdBook's too.
fn lost_links(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let folder = page.parent().unwrap();
    let is_lost = |link: &&str| {
        let (place, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if place.is_empty() { page.to_owned() } else { folder.join(place) };
        let is_there = |text: &str| headings(text).any(|it| it == heading);
        let lacks_heading = || !fs::read_to_string(&target).is_ok_and(|text| is_there(&text));
        !target.exists() || (!heading.is_empty() && lacks_heading())
    };
    let below = page.strip_prefix(root()).unwrap_or(page).display().to_string();
    links(&text).filter(is_lost).map(|link| format!("{below}: {link}")).collect()
}

fn root() -> PathBuf {
    normal(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}

/// All pages of the workspace.
fn pages() -> Vec<PathBuf> {
    let (mut folders, mut pages) = (vec![root()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let (path, name) = (entry.path(), entry.file_name().into_string().unwrap());
            let is_hidden = name.starts_with('.');
            if entry.file_type().unwrap().is_dir() {
                let is_passed_over = is_hidden || PASSED_OVER.contains(&name.as_str());
                folders.extend((!is_passed_over).then_some(path));
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// The targets of the links of a page outside of code, but for those to other sites.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().filter(|line| !line.starts_with("    "));
    let found = lines.flat_map(|line| line.split("](").skip(1));
    let target = found.filter_map(|it| it.split_once(')').map(|(target, _)| target));
    target.filter(|it| !it.contains("://") && !it.contains(' '))
}

/// The anchors of the headings of a page.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = text.lines().filter(|line| line.starts_with('#'));
    titles.map(|line| anchor(line.trim_start_matches('#').trim()))
}

fn anchor(title: &str) -> String {
    let kept = title.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it.to_ascii_lowercase() }).collect()
}

/// Without `..`.
fn normal(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
