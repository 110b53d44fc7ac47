//! Rules about the pages of the documentation: each page is in the table of contents, and each link
//! has a target.

use crate::{Breach, Canary, Rule, Source, Workspace};
use std::collections::BTreeSet;

const SUMMARY: &str = "docs/SUMMARY.md";

pub(super) struct Summary;

impl Rule for Summary {
    fn name(&self) -> &'static str {
        "summary"
    }

    fn asks(&self) -> &'static str {
        "docs/SUMMARY.md names each page of docs/ once"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let mut named = BTreeSet::new();
        let mut breaches = Vec::new();
        for summary in workspace.pages.iter().filter(|it| it.path == SUMMARY) {
            for page in links(&summary.text).map(|link| target(summary, link)) {
                if !named.insert(page.clone()) {
                    breaches.push(Breach::one(&page, format!("{page} is named twice")));
                }
            }
        }
        let is_page = |it: &&Source| {
            it.path != SUMMARY
                && it.path.strip_prefix("docs/").is_some_and(|name| !name.contains('/'))
        };
        let missing = workspace.pages.iter().filter(is_page).map(|it| &it.path);
        let missing = missing.filter(|it| !named.contains(*it));
        breaches.extend(missing.map(|it| Breach::one(it, format!("{it} is missing"))));
        breaches
    }

    fn canary(&self) -> Canary {
        let pages = [("docs/a.md", ""), ("docs/b.md", ""), ("a.md", ""), ("docs/c/d.md", "")];
        let with = |summary| [&pages[..], &[(SUMMARY, summary)]].concat();
        Canary::default()
            .breaks(&with("- [A](a.md)\n"), &["docs/b.md is missing"])
            .breaks(
                &with("- [A](a.md)\n- [B](b.md)\n- [A](../docs/a.md)\n"),
                &["docs/a.md is named twice"],
            )
            .breaks(&pages[..1], &["docs/a.md is missing"])
            .keeps(&with("[Top](../a.md)\n- [A](a.md)\n- [B](b.md)\n"))
    }
}

pub(super) struct Links;

impl Rule for Links {
    fn name(&self) -> &'static str {
        "links"
    }

    fn asks(&self) -> &'static str {
        "each link of a page leads to a file, folder or heading that is there"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let pages = workspace.pages.iter().filter(|it| !it.is_recording());
        let lost = pages.flat_map(|page| {
            let lost = links(&page.text).filter(|link| !leads_somewhere(workspace, page, link));
            lost.map(|link| Breach::one(&page.path, format!("{}: {link}", page.path)))
        });
        lost.collect()
    }

    fn canary(&self) -> Canary {
        let lost = "[a](b.md) [b](../c.md) [c](#none) [d](../c/d.md#none) [e](../../a.rs)";
        let led = "# A *head-line*: 1\n[a](../c) [b](#a-head-line-1) [c](d.md#d) [d](../e.rs) \
                   [e](https://a.b/c)\n    [f](in_code.md)\n";
        Canary::default()
            .breaks(
                &[("a/a.md", lost), ("c/d.md", "# D")],
                &[
                    "a/a.md: b.md",
                    "a/a.md: ../c.md",
                    "a/a.md: #none",
                    "a/a.md: ../c/d.md#none",
                    "a/a.md: ../../a.rs",
                ],
            )
            .keeps(&[("c/a.md", led), ("c/d.md", "## D"), ("e.rs", ""), ("results/a.md", lost)])
    }
}

/// Whether a link has a target. A link to a heading names the heading's anchor, which GitHub and
/// mdBook make in the same way.
fn leads_somewhere(workspace: &Workspace, page: &Source, link: &str) -> bool {
    let (place, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if place.is_empty() { page.path.clone() } else { target(page, place) };
    let has_heading = || {
        let page = workspace.pages.iter().find(|it| it.path == target);
        page.is_some_and(|it| headings(&it.text).any(|it| it == heading))
    };
    (target.is_empty() || workspace.paths.contains(&target))
        && (heading.is_empty() || has_heading())
}

/// The path that a page's link leads to.
fn target(page: &Source, link: &str) -> String {
    let mut folders: Vec<&str> = page.path.split('/').collect();
    folders.pop();
    for name in link.split('/') {
        match name {
            ".." if folders.last().is_some_and(|it| *it != "..") => drop(folders.pop()),
            "." | "" => {}
            name => folders.push(name),
        }
    }
    folders.join("/")
}

/// The targets of a page's links. Links in code and links to other sites are left out.
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
