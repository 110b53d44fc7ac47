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
    let Some(text) = line.trim_start().strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim_start();
    ["Who ", "What ", "Whom ", "Whoever "].iter().any(|it| text.starts_with(it))
        && !text.ends_with('?')
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
    fn a_question_may_begin_with_a_pronoun() {
        assert!(starts_with_pronoun("    /// What was written."));
        assert!(!starts_with_pronoun("    // What if it fails?"));
        assert!(!starts_with_pronoun("let what = \"What \";"));
        assert!(!starts_with_pronoun("/// Whatever it is."));
    }
}
