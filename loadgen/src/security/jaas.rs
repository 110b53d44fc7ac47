//! `sasl.jaas.config`: the login module and its options, as Kafka's clients read them.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::Chars;

pub(super) struct Login {
    pub(super) module: String,
    pub(super) options: BTreeMap<String, String>,
}

const FLAGS: [&str; 4] = ["required", "requisite", "sufficient", "optional"];

/// `MODULE required NAME="VALUE" ... ;`
///
/// # Errors
/// Its first mistake, to stand behind its key.
pub(super) fn parse(text: &str) -> Result<Login, String> {
    let mut tokens = Tokens { rest: text.chars().peekable() };
    let module = tokens.word("the name of a login module")?;
    let flag = tokens.word("a control flag")?;
    if !FLAGS.contains(&flag.to_ascii_lowercase().as_str()) {
        return Err(format!("{flag} stands where one of {} should", FLAGS.join(", ")));
    }
    let options = options(&mut tokens)?;
    match tokens.next()? {
        None => Ok(Login { module, options }),
        Some(_) => Err("there is more than one login module in it".into()),
    }
}

/// Up to the semicolon.
fn options(tokens: &mut Tokens<'_>) -> Result<BTreeMap<String, String>, String> {
    let mut options = BTreeMap::new();
    loop {
        let name = match tokens.next()? {
            Some(Token::Semicolon) => return Ok(options),
            Some(Token::Word(name)) => name,
            Some(Token::Equals) => return Err("there is no name before a =".into()),
            None => return Err("there is no semicolon at its end".into()),
        };
        if tokens.next()? != Some(Token::Equals) {
            return Err(format!("there is no = behind {name}"));
        }
        let value = tokens.word(&format!("the value of {name}"))?;
        options.insert(name, value);
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
    fn word(&mut self, wanted: &str) -> Result<String, String> {
        match self.next()? {
            Some(Token::Word(word)) => Ok(word),
            Some(Token::Equals | Token::Semicolon) | None => Err(format!("{wanted} is missing")),
        }
    }

    fn next(&mut self) -> Result<Option<Token>, String> {
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
            other => Err(format!("{other} has to stand in quotation marks")),
        }
    }

    fn quoted(&mut self, mark: char) -> Result<String, String> {
        let mut text = String::new();
        loop {
            match self.rest.next() {
                None | Some('\n' | '\r') => return Err(format!("a closing {mark} is missing")),
                Some('\\') => text.push(self.escaped()?),
                Some(end) if end == mark => return Ok(text),
                Some(other) => text.push(other),
            }
        }
    }

    /// As in Java: `\n`, up to three octal digits, or the character itself.
    fn escaped(&mut self) -> Result<char, String> {
        let first = self.rest.next().ok_or("it ends with a backslash")?;
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
        char::from_u32(code).ok_or_else(|| "an octal escape is too large".into())
    }
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '-' | '_' | '$' | '.') || c >= '\u{a0}'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_with_its_options() {
        let login = parse(
            "org.apache.kafka.common.security.plain.PlainLoginModule Required\n \
             username=\"al\\\"ice\" password='se=c;r\\145t \\\\';",
        )
        .unwrap();
        assert_eq!(login.module, "org.apache.kafka.common.security.plain.PlainLoginModule");
        assert_eq!(login.options["username"], "al\"ice");
        assert_eq!(login.options["password"], "se=c;ret \\");
        assert!(parse("M required;").unwrap().options.is_empty());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("", "the name of a login module is missing"),
            ("M", "a control flag is missing"),
            ("M username=\"a\";", "username stands where"),
            ("M required username=\"a\"", "no semicolon"),
            ("M required username=;", "the value of username is missing"),
            ("M required username \"a\";", "no = behind username"),
            ("M required =\"a\";", "no name before"),
            ("M required a=\"b;", "a closing \" is missing"),
            ("M required a=b&c;", "& has to stand in quotation marks"),
            ("M required a=\"\\", "ends with a backslash"),
            ("M required; N required;", "more than one login module"),
        ] {
            let error = parse(text).map(|login| login.module).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
