//! A file of Rust code or of prose.

use proc_macro2::{TokenStream, TokenTree};
use std::cell::OnceCell;

/// A file; its path is relative to the workspace and has slashes.
#[derive(Default)]
pub struct Source {
    pub path: String,
    pub text: String,
    parsed: OnceCell<Result<Parsed, String>>,
}

struct Parsed {
    tokens: TokenStream,
    file: syn::File,
}

/// A string literal, with the line on which it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Source {
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into(), parsed: OnceCell::new() }
    }

    /// Whether the file is a test, a benchmark, or a module of tests.
    pub(crate) fn is_test(&self) -> bool {
        let mut folders = self.path.split('/');
        folders.any(|it| matches!(it, "tests" | "tests.rs" | "testing.rs" | "benches"))
    }

    /// Whether the file is a recording, such as a measurement or the expected output of a test.
    /// Recordings are never edited.
    pub(crate) fn is_recording(&self) -> bool {
        self.path.split('/').any(|it| matches!(it, "results" | "expected"))
    }

    /// The lines with their numbers, counted from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(index, line)| (index + 1, line))
    }

    /// The items of the file. None if it cannot be parsed; the rule `IsRust` reports this.
    pub(crate) fn file(&self) -> Option<&syn::File> {
        self.parsed().as_ref().ok().map(|it| &it.file)
    }

    /// The reason why the file cannot be parsed.
    pub(crate) fn refusal(&self) -> Option<&str> {
        self.parsed().as_ref().err().map(String::as_str)
    }

    /// All string literals in the code, including those in macros. Documentation comments do not
    /// count.
    pub(crate) fn strings(&self) -> Vec<Text> {
        let mut texts = Vec::new();
        if let Ok(parsed) = self.parsed() {
            collect(parsed.tokens.clone(), &mut texts);
        }
        texts
    }

    fn parsed(&self) -> &Result<Parsed, String> {
        self.parsed.get_or_init(|| {
            let tokens: TokenStream = self.text.parse().map_err(|error| format!("{error}"))?;
            let file = syn::parse2(tokens.clone())
                .map_err(|error| format!("line {}: {error}", error.span().start().line))?;
            Ok(Parsed { tokens, file })
        })
    }
}

fn collect(tokens: TokenStream, texts: &mut Vec<Text>) {
    let mut is_attribute = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) if !is_attribute => collect(group.stream(), texts),
            TokenTree::Literal(literal) => {
                let line = literal.span().start().line;
                if let syn::Lit::Str(string) = syn::Lit::new(literal) {
                    texts.push(Text { line, text: string.value() });
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                is_attribute = true;
                continue;
            }
            // An inner attribute, `#![...]`.
            TokenTree::Punct(punct) if punct.as_char() == '!' && is_attribute => continue,
            TokenTree::Group(_) | TokenTree::Ident(_) | TokenTree::Punct(_) => {}
        }
        is_attribute = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_in_macros_and_not_in_comments() {
        let source = Source::new(
            "a.rs",
            "//! head\n/// comment\n#[a = \"b\"]\nfn f() {\n    info!(\"one {}\", g(\"two\"));\n}",
        );
        let one = Text { line: 5, text: "one {}".to_owned() };
        assert_eq!(source.strings(), [one, Text { line: 5, text: "two".to_owned() }]);
    }
}
