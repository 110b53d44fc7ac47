//! `sasl.jaas.config`: a login module and its options, in Java's syntax.

use super::secret::Secret;
use std::iter::Peekable;
use std::str::Chars;

/// `Class flag key="value" ... ;`
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LoginModule {
    pub(crate) class: String,
    pub(crate) options: Vec<(String, Secret)>,
}

const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

impl LoginModule {
    /// # Errors
    /// The mistake, without a word of the text.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        let mut tokens = tokens(text)?.into_iter();
        let Some(Token::Word(class)) = tokens.next() else { return Err("it has no login module") };
        match tokens.next() {
            Some(Token::Word(flag)) if FLAGS.contains(&flag.to_ascii_lowercase().as_str()) => {}
            _ => return Err("after its login module has to be a flag, such as required"),
        }
        let mut options = Vec::new();
        loop {
            match [tokens.next(), tokens.next(), tokens.next()] {
                [Some(Token::Semicolon), None, _] => return Ok(Self { class, options }),
                [Some(Token::Semicolon), Some(_), _] => {
                    return Err("it has more than one login module");
                }
                [Some(Token::Word(key)), Some(Token::Equals), Some(Token::Word(value))] => {
                    options.push((key, Secret::new(&value)));
                }
                _ => return Err("its options are not of the form key=\"value\" ... ;"),
            }
        }
    }
}

enum Token {
    Word(String),
    Equals,
    Semicolon,
}

fn tokens(text: &str) -> Result<Vec<Token>, &'static str> {
    let (mut tokens, mut chars) = (Vec::new(), text.chars().peekable());
    while let Some(c) = chars.next() {
        tokens.push(match c {
            _ if c.is_whitespace() => continue,
            '=' => Token::Equals,
            ';' => Token::Semicolon,
            '"' | '\'' => Token::Word(quoted(&mut chars, c)?),
            _ => Token::Word(word(&mut chars, c)),
        });
    }
    Ok(tokens)
}

fn word(chars: &mut Peekable<Chars<'_>>, first: char) -> String {
    let ends = |c: &char| c.is_whitespace() || matches!(c, '=' | ';' | '"' | '\'');
    let mut word = String::from(first);
    while let Some(c) = chars.next_if(|c| !ends(c)) {
        word.push(c);
    }
    word
}

/// A backslash stands before a character that is meant as it is, or before a letter for a control
/// character.
fn quoted(chars: &mut Peekable<Chars<'_>>, quote: char) -> Result<String, &'static str> {
    let mut word = String::new();
    loop {
        match chars.next().ok_or("a quotation mark is missing")? {
            c if c == quote => return Ok(word),
            '\\' => word.push(match chars.next().ok_or("a quotation mark is missing")? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c => c,
            }),
            c => word.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_options_are_read() {
        let text = r#"
            org.example.PlainLoginModule required
              username="admin" password="a \"b\" = ;"
              user_alice='x' user_bob=y;"#;
        let module = LoginModule::parse(text).unwrap();
        assert_eq!(module.class, "org.example.PlainLoginModule");
        let options: Vec<_> =
            module.options.iter().map(|(key, value)| (key.as_str(), value.text())).collect();
        let password = ("password", "a \"b\" = ;");
        assert_eq!(
            options,
            [("username", "admin"), password, ("user_alice", "x"), ("user_bob", "y")]
        );
        assert!(!format!("{module:?}").contains("admin"));
    }

    #[test]
    fn malformed_ones_are_refused() {
        for text in [
            "",
            "Module",
            "Module optionally;",
            "Module required",
            "Module required a=b",
            "Module required a=;",
            "Module required a b;",
            "Module required a=\"b;",
            "Module required a=\"b\\",
            "Module required; Module required;",
        ] {
            assert!(LoginModule::parse(text).is_err(), "{text}");
        }
    }
}
