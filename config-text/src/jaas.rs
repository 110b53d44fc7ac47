//! `sasl.jaas.config`: a login module with its options, in Java's syntax, parsed as in Kafka.

use std::iter::Peekable;
use std::str::Chars;

/// Parsed from `CLASS required NAME="VALUE" ... ;`.
pub struct LoginModule {
    pub class: String,
    /// Name and value, in order. A name may occur several times.
    pub options: Vec<(String, String)>,
}

const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

/// The description of a mistake. It quotes nothing of the text, which may hold a password.
type Mistake = &'static str;

impl LoginModule {
    /// Parses the value of `sasl.jaas.config`.
    ///
    /// # Errors
    /// The first mistake, as text to append to the key of the config.
    pub fn parse(text: &str) -> Result<Self, Mistake> {
        let mut tokens = Tokens { rest: text.chars().peekable() };
        let class = tokens.word("it has no login module")?;
        let flag = tokens.word(NO_FLAG)?;
        if !FLAGS.contains(&flag.to_ascii_lowercase().as_str()) {
            return Err(NO_FLAG);
        }
        let options = options(&mut tokens)?;
        match tokens.next()? {
            None => Ok(Self { class, options }),
            Some(_) => Err("it has more than one login module"),
        }
    }
}

const NO_FLAG: Mistake = "its login module has no flag, such as required";

/// Reads the options up to the semicolon.
fn options(tokens: &mut Tokens<'_>) -> Result<Vec<(String, String)>, Mistake> {
    let mut options = Vec::new();
    loop {
        let name = match tokens.next()? {
            Some(Token::Semicolon) => return Ok(options),
            Some(Token::Word(name)) => name,
            Some(Token::Equals) => return Err("there is no name before a ="),
            None => return Err("there is no semicolon at its end"),
        };
        if tokens.next()? != Some(Token::Equals) {
            return Err("there is no = after the name of an option");
        }
        options.push((name, tokens.word("an option has no value")?));
    }
}

#[derive(PartialEq)]
enum Token {
    Word(String),
    Equals,
    Semicolon,
}

struct Tokens<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Tokens<'_> {
    /// Reads a word. If there is none, the error is `missing`.
    fn word(&mut self, missing: Mistake) -> Result<String, Mistake> {
        match self.next()? {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Equals | Token::Semicolon) | None => Err(missing),
        }
    }

    fn next(&mut self) -> Result<Option<Token>, Mistake> {
        while self.rest.next_if(|c| c.is_whitespace()).is_some() {}
        let Some(first) = self.rest.next() else { return Ok(None) };
        match first {
            '=' => Ok(Some(Token::Equals)),
            ';' => Ok(Some(Token::Semicolon)),
            '"' | '\'' => self.quoted(first).map(|text| Some(Token::Word(text))),
            first if is_of_word(first) => {
                let mut word = String::from(first);
                while let Some(next) = self.rest.next_if(|c| is_of_word(*c)) {
                    word.push(next);
                }
                Ok(Some(Token::Word(word)))
            }
            _ => Err("a value with special characters must be in quotation marks"),
        }
    }

    fn quoted(&mut self, mark: char) -> Result<String, Mistake> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None | Some('\n' | '\r') => return Err("a quotation mark is missing"),
                Some('\\') => text.push(self.escaped()?),
                Some(end) if end == mark => return Ok(text),
                Some(other) => text.push(other),
            }
        }
    }

    /// Reads the character after a backslash as Java does: `\n` and the like, up to three octal
    /// digits, or the character itself.
    fn escaped(&mut self) -> Result<char, Mistake> {
        let first = self.rest.next().ok_or("a quotation mark is missing")?;
        let Some(mut code) = first.to_digit(8) else {
            return Ok(match first {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                other => other,
            });
        };
        let digits = if code < 4 { 2 } else { 1 };
        for _ in 0..digits {
            let Some(digit) = self.rest.next_if(|c| c.is_digit(8)) else { break };
            code = code * 8 + digit.to_digit(8).unwrap_or_default();
        }
        char::from_u32(code).ok_or("an octal escape is too large")
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '$' | '.') || c >= '\u{a0}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_with_options_are_read() {
        let text = r#"
            org.example.PlainLoginModule Required
              username="al\"ice" password='se=c;r\145t \\'
              user_bob=y user_bob="\tz" ;"#;
        let module = LoginModule::parse(text).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(module.class, "org.example.PlainLoginModule");
        let options: Vec<_> =
            module.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let password = ("password", "se=c;ret \\");
        let bob = [("user_bob", "y"), ("user_bob", "\tz")];
        assert_eq!(options, [("username", "al\"ice"), password, bob[0], bob[1]]);
        assert!(LoginModule::parse("M required;").is_ok_and(|module| module.options.is_empty()));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, mistake) in [
            ("", "it has no login module"),
            ("M", NO_FLAG),
            ("M optionally;", NO_FLAG),
            ("M username=\"a\";", NO_FLAG),
            ("M required", "there is no semicolon at its end"),
            ("M required username=\"a\"", "there is no semicolon at its end"),
            ("M required username=;", "an option has no value"),
            ("M required username \"a\";", "there is no = after the name of an option"),
            ("M required =\"a\";", "there is no name before a ="),
            ("M required a=\"b;", "a quotation mark is missing"),
            ("M required a=\"b\nc\";", "a quotation mark is missing"),
            ("M required a=\"\\", "a quotation mark is missing"),
            ("M required a=b&c;", "a value with special characters must be in quotation marks"),
            ("M required; N required;", "it has more than one login module"),
        ] {
            assert_eq!(LoginModule::parse(text).err(), Some(mistake), "{text}");
        }
    }
}
