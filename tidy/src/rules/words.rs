//! Words that the project does not use, with the words to use instead.

use super::lines::{found, place};
use crate::{Breach, Canary, Rule, Source, Workspace};

/// A banned phrase with its replacement.
#[derive(Debug, Clone, Copy)]
struct Banned {
    phrase: &'static str,
    instead: &'static str,
}

const fn banned(phrase: &'static str, instead: &'static str) -> Banned {
    Banned { phrase, instead }
}

/// The phrases in lower case. An underscore in an identifier counts as a space.
const BANNED: &[Banned] = &[
    banned("anew", "again, recreated, a new"),
    banned("nobody", "no client, no member, none"),
    banned("goes on", "continues, resumes"),
    banned("go on", "continue, resume"),
    banned("so many", "a number of, this number of"),
    banned("so much", "this much, the amount"),
    banned("in the cold", "unloaded, serialized"),
    banned("to life", "is loaded"),
    banned("thaw", "load, decode"),
    banned("untold", "pending, not yet reported"),
    banned("told", "notified, reported"),
    banned("tells", "notifies, reports, says"),
    banned("tell", "notify, report, say"),
    banned("happening", "event"),
    banned("whom", "which member, which client"),
    banned("somebody", "a client, a member"),
    banned("seat", "member, client, process"),
    banned("seats", "members, clients, processes"),
    banned("shadow", "expected state, check copy"),
    banned("shadows", "expected states"),
    banned("plant", "inject, fault"),
    banned("plants", "injects, faults"),
    banned("planted", "injected"),
    banned("promised", "acknowledged, assigned"),
    banned("astray", "misdirected"),
    banned("a start", "startup, recovery, the server at startup"),
    banned("at the most", "at most"),
    banned("as far as", "up to, as much as, if known"),
    banned("loss of power", "power loss"),
    banned("losses of power", "power losses"),
    banned("also if", "even if"),
    banned("also after", "even after"),
    banned("also when", "even when"),
    banned("laid against", "compared with"),
    banned("lays against", "compares with"),
    banned("held against", "compared with"),
    banned("its word", "its guarantees"),
    banned("from no further", "no longer from"),
    banned("served no further", "no longer served"),
];

/// The glossary, which has to mention the banned words.
const GLOSSARY: &str = "docs/glossary.md";

impl Banned {
    /// The number of occurrences in a line.
    fn count(self, line: &str) -> usize {
        let line = line.to_lowercase().replace('_', " ");
        let is_word = |at: usize| {
            let outside = |it: Option<char>| it.is_none_or(|it| !it.is_alphanumeric());
            outside(line[..at].chars().next_back())
                && outside(line[at + self.phrase.len()..].chars().next())
        };
        line.match_indices(self.phrase).filter(|(at, _)| is_word(*at)).count()
    }

    fn breaches(self, source: &Source) -> impl Iterator<Item = Breach> {
        source.lines().flat_map(move |(number, line)| {
            let key = format!("{} (say: {})", self.phrase, self.instead);
            let breach = Breach::one(key, place(source, number, line));
            std::iter::repeat_n(breach, self.count(line))
        })
    }
}

fn banned_in<'a>(sources: impl Iterator<Item = &'a Source>) -> Vec<Breach> {
    sources.flat_map(|it| BANNED.iter().flat_map(|banned| banned.breaches(it))).collect()
}

/// The pages that are checked. Recordings and the glossary are exempt.
fn pages(workspace: &Workspace) -> impl Iterator<Item = &Source> {
    workspace.pages.iter().filter(|it| !it.is_recording() && it.path != GLOSSARY)
}

/// Banned words in code, including identifiers.
pub(super) struct Words;

impl Rule for Words {
    fn name(&self) -> &'static str {
        "words"
    }

    fn asks(&self) -> &'static str {
        "code and its comments use the words of docs/glossary.md"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        banned_in(workspace.judged())
    }

    fn canary(&self) -> Canary {
        let code = "/// It is told, and TOLD again: untold.\nfn is_told_of_it() {}\n";
        let comment = "a.rs:1: /// It is told, and TOLD again: untold.";
        let each: String = BANNED.iter().map(|it| format!("// {}\n", it.phrase)).collect();
        let places = each.lines().enumerate();
        let places: Vec<String> =
            places.map(|(index, line)| format!("b.rs:{}: {line}", index + 1)).collect();
        let names: Vec<&str> = places.iter().map(String::as_str).collect();
        Canary::default()
            .breaks(
                &[("a.rs", code)],
                &[comment, comment, comment, "a.rs:2: fn is_told_of_it() {}"],
            )
            .breaks(&[("b.rs", &each)], &names)
            .keeps(&[("a.rs", "// untolded, toldness"), ("tidy/a.rs", "// told")])
    }
}

/// Banned words in pages. The changelog is checked, too, because its future entries will be new
/// prose.
pub(super) struct WordsInPages;

impl Rule for WordsInPages {
    fn name(&self) -> &'static str {
        "words_in_pages"
    }

    fn asks(&self) -> &'static str {
        "pages use the words of docs/glossary.md"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        banned_in(pages(workspace))
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(&[("a/b.md", "# B\n\n`doctor` tells it.\n")], &["a/b.md:3: `doctor` tells it."])
            .keeps(&[(GLOSSARY, "tells"), ("results/a.md", "tells"), ("a.md", "retells")])
    }
}

/// Comment lines that begin with a pronoun. Pages are exempt: a line of a wrapped paragraph may
/// begin with any word.
pub(super) struct Pronouns;

impl Rule for Pronouns {
    fn name(&self) -> &'static str {
        "pronouns"
    }

    fn asks(&self) -> &'static str {
        "a comment names its subject, which is not \"Who\", \"What\" or \"Whom\""
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        workspace.judged().flat_map(|it| found(it, starts_with_pronoun)).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(
                &[("a.rs", "    /// What was written.\n// Whoever reads.\n")],
                &["a.rs:1: /// What was written.", "a.rs:2: // Whoever reads."],
            )
            .keeps(&[("a.rs", "// What if it fails?\n/// Whatever it is.\nlet it = \"What \";\n")])
    }
}

/// Whether a comment line begins with "Who", "What", "Whom" or "Whoever". A question is allowed.
fn starts_with_pronoun(line: &str) -> bool {
    comment(line).is_some_and(|text| {
        let pronouns = ["Who ", "What ", "Whom ", "Whoever "];
        pronouns.iter().any(|it| text.starts_with(it)) && !text.ends_with('?')
    })
}

/// Comment lines that begin with a preposition, or with a reference to another comment. Pages are
/// exempt for the reason of [`Pronouns`].
pub(super) struct Nounless;

impl Rule for Nounless {
    fn name(&self) -> &'static str {
        "nounless"
    }

    fn asks(&self) -> &'static str {
        "a comment begins with its noun: \"The position of the last block\", not \"Of the last\""
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        workspace.judged().flat_map(|it| found(it, lacks_noun)).collect()
    }

    fn canary(&self) -> Canary {
        Canary::default()
            .breaks(
                &[("a.rs", "    /// Of the last block.\n/// As [`Self::new`], but smaller.\n")],
                &["a.rs:1: /// Of the last block.", "a.rs:2: /// As [`Self::new`], but smaller."],
            )
            .keeps(&[(
                "a.rs",
                "/// The position.\n/// As in Kafka, it is removed.\nlet text = \"Of it\";\n",
            )])
    }
}

/// Whether a comment line lacks a noun at its beginning: it begins with a preposition, or with a
/// reference to another comment. "By name: ..." before a list of cases is not allowed, either.
fn lacks_noun(line: &str) -> bool {
    const BEGINNINGS: [&str; 9] = [
        "Of ",
        "By ",
        "In which ",
        "From when ",
        "Since when ",
        "Until when ",
        "The same of ",
        "The same for ",
        "As [`",
    ];
    comment(line).is_some_and(|text| BEGINNINGS.iter().any(|it| text.starts_with(it)))
}

/// "behind" where "after" is meant. Comments, pages and strings are checked, because strings become
/// log lines and answers.
pub(super) struct Behind;

impl Rule for Behind {
    fn name(&self) -> &'static str {
        "behind"
    }

    fn asks(&self) -> &'static str {
        "\"behind\" is said of places; of an order, \"after\" is"
    }

    fn breaches(&self, workspace: &Workspace) -> Vec<Breach> {
        let in_code = workspace.judged().flat_map(|source| {
            let comments = source.lines().filter_map(|(number, line)| {
                let (_, comment) = line.split_once("//")?;
                is_of_order(comment).then(|| Breach::one("comments", place(source, number, line)))
            });
            let strings = source.strings().into_iter().filter(|it| is_of_order(&it.text));
            comments.chain(strings.map(|it| {
                Breach::one("strings", place(source, it.line, &format!("{:?}", it.text)))
            }))
        });
        let in_pages = pages(workspace).flat_map(|source| {
            let lines = source.lines().filter(|(_, line)| is_of_order(line));
            lines.map(|(number, line)| Breach::one("pages", place(source, number, line)))
        });
        in_code.chain(in_pages).collect()
    }

    fn canary(&self) -> Canary {
        let code = "/// The records behind that position.\nlet at = 3; // One behind it.\n";
        let log =
            "fn f() {\n    info!(\n        \"no block, \\\n   behind operation {}\"\n    );\n}";
        Canary::default()
            .breaks(
                &[("a.rs", code)],
                &[
                    "a.rs:1: /// The records behind that position.",
                    "a.rs:2: let at = 3; // One behind it.",
                ],
            )
            .breaks(&[("a.rs", log)], &["a.rs:3: \"no block, behind operation {}\""])
            .breaks(&[("a.md", "The segments\nbehind it stay.")], &["a.md:2: behind it stay."])
            .keeps(&[
                ("a.rs", "/// An io_uring behind safe functions.\nconst behind: A = behind_it;"),
                ("a.md", "A container behind forwarded ports is an epoch behind."),
            ])
    }
}

/// Whether a text uses "behind" for an order, where "after" is meant.
fn is_of_order(text: &str) -> bool {
    const ARTICLES: [&str; 5] = ["the ", "a ", "an ", "its ", "each "];
    const FOLLOWING: [&str; 11] =
        ["the last", "it", "them", "that", "this", "a", "an", "one", "its", "those", "another"];
    const ORDERED: [&str; 7] = ["batch", "block", "offset", "operation", "position", "record", "{"];
    text.split("behind ").skip(1).any(|rest| {
        let is_word = |rest: &str| rest.chars().next().is_none_or(|next| !next.is_alphanumeric());
        let noun = ARTICLES.iter().find_map(|it| rest.strip_prefix(it)).unwrap_or(rest);
        FOLLOWING.iter().filter_map(|it| rest.strip_prefix(it)).any(is_word)
            || ORDERED.iter().any(|it| noun.starts_with(it))
    })
}

/// The text of the comment, if the line is one.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}
