//! Words that the project does not use, with the ones to use for them.

/// A phrase and what to write for it.
#[derive(Debug, Clone, Copy)]
pub struct Banned {
    pub phrase: &'static str,
    pub instead: &'static str,
}

const fn banned(phrase: &'static str, instead: &'static str) -> Banned {
    Banned { phrase, instead }
}

/// In lower case; an underscore in a name counts as a space.
pub const BANNED: &[Banned] = &[
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

impl Banned {
    /// How many times it stands in a line.
    pub fn count(self, line: &str) -> usize {
        let line = line.to_lowercase().replace('_', " ");
        let is_word = |at: usize| {
            let outside = |it: Option<char>| it.is_none_or(|it| !it.is_alphanumeric());
            outside(line[..at].chars().next_back())
                && outside(line[at + self.phrase.len()..].chars().next())
        };
        line.match_indices(self.phrase).filter(|(at, _)| is_word(*at)).count()
    }
}

/// Whether a line of a comment begins a sentence with "Who", "What" or "Whom" as its subject.
pub fn starts_with_pronoun(line: &str) -> bool {
    comment(line).is_some_and(|text| {
        let pronouns = ["Who ", "What ", "Whom ", "Whoever "];
        pronouns.iter().any(|it| text.starts_with(it)) && !text.ends_with('?')
    })
}

/// Whether a line of a comment begins with a preposition where its noun should be: "Of the last
/// block" for "The position of the last block". A list of cases ("By name: …") counts too.
pub fn lacks_noun(line: &str) -> bool {
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

/// Whether a comment says "behind" of an order, where "after" is meant.
pub fn says_behind(line: &str) -> bool {
    const FOLLOWING: [&str; 11] =
        ["the last", "it", "them", "that", "this", "a", "an", "one", "its", "those", "another"];
    let Some((_, comment)) = line.split_once("//") else { return false };
    comment.split("behind ").skip(1).any(|rest| {
        FOLLOWING
            .iter()
            .filter_map(|it| rest.strip_prefix(it))
            .any(|rest| rest.chars().next().is_none_or(|next| !next.is_alphanumeric()))
    })
}

/// The text of a line that is a comment.
fn comment(line: &str) -> Option<&str> {
    let text = line.trim_start().strip_prefix("//")?;
    Some(text.trim_start_matches(['/', '!']).trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_count_in_names_and_in_sentences() {
        let told = banned("told", "");
        assert_eq!(told.count("// It is told, and TOLD again: untold."), 2);
        assert_eq!(told.count("fn is_told_of_it() {"), 1);
        assert_eq!(banned("so many", "").count("let so_many = 3;"), 1);
    }

    #[test]
    fn a_comment_begins_with_its_noun() {
        assert!(lacks_noun("    /// Of the last block."));
        assert!(lacks_noun("/// As [`Self::new`], but smaller."));
        assert!(!lacks_noun("/// The position of the last block."));
        assert!(!lacks_noun("/// As in Kafka, the group is removed."));
        assert!(!lacks_noun("let text = \"Of it\";"));
    }

    #[test]
    fn behind_is_of_places_and_not_of_order() {
        assert!(says_behind("/// The records behind that position."));
        assert!(says_behind("let at = 3; // One behind it."));
        assert!(!says_behind("/// An io_uring behind safe functions."));
        assert!(!says_behind("let behind = behind_it;"));
    }

    #[test]
    fn a_question_may_begin_with_a_pronoun() {
        assert!(starts_with_pronoun("    /// What was written."));
        assert!(!starts_with_pronoun("    // What if it fails?"));
        assert!(!starts_with_pronoun("let what = \"What \";"));
        assert!(!starts_with_pronoun("/// Whatever it is."));
    }
}
