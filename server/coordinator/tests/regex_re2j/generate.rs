//! Random expressions, each with names. Some of the names probably match.

use std::fmt::Write;

/// An expression, and names to match it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) expression: String,
    pub(crate) names: Vec<String>,
}

impl Case {
    /// The fields, separated by tabs, and escaped as `Verdicts.java` expects.
    pub(crate) fn line(&self) -> String {
        let mut line = escaped(&self.expression);
        for name in &self.names {
            write!(line, "\t{}", escaped(name)).unwrap();
        }
        line
    }

    pub(crate) fn parse(line: &str) -> Self {
        let mut fields = line.split('\t').map(unescaped);
        Self { expression: fields.next().unwrap(), names: fields.collect() }
    }
}

fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\");
    text.replace('\t', "\\t").replace('\n', "\\n").replace('\r', "\\r")
}

fn unescaped(field: &str) -> String {
    let mut text = String::new();
    let mut rest = field.chars();
    while let Some(c) = rest.next() {
        text.push(match c {
            '\\' => match rest.next().unwrap() {
                't' => '\t',
                'n' => '\n',
                'r' => '\r',
                other => other,
            },
            other => other,
        });
    }
    text
}

/// An endless sequence of cases. Equal seeds make equal sequences.
pub(crate) struct Generator {
    state: u64,
}

impl Iterator for Generator {
    type Item = Case;

    fn next(&mut self) -> Option<Case> {
        let mut expression = String::new();
        let mut sample = String::new();
        if self.one_in(6) {
            for _ in 0..1 + self.below(8) {
                let token = self.pick(&SOUP);
                expression.push_str(token);
            }
        } else {
            self.alternation(&mut expression, &mut sample, 3);
        }
        if self.one_in(8) {
            self.damage(&mut expression);
        }
        sample = sample.chars().take(60).collect();
        let names = (0..6).map(|i| self.name(&sample, i)).collect();
        Some(Case { expression, names })
    }
}

/// Pieces with a special meaning in expressions, some only together with others.
const SOUP: [&str; 64] = [
    "a",
    "b",
    "K",
    "s",
    "-",
    "_",
    "0",
    "]",
    "[",
    "(",
    ")",
    "{",
    "}",
    "|",
    "*",
    "+",
    "?",
    "^",
    "$",
    ".",
    "\\",
    "\\Q",
    "\\E",
    "\\d",
    "\\S",
    "\\w",
    "\\b",
    "\\B",
    "\\A",
    "\\z",
    "\\Z",
    "\\C",
    "\\pL",
    "\\PN",
    "\\p{Greek}",
    "\\p{^Lu}",
    "\\p{",
    "\\x41",
    "\\x{4b}",
    "\\x{110000}",
    "\\07",
    "\\101",
    "\\1",
    "\\8",
    "[a-c]",
    "[^a]",
    "[[:alpha:]",
    "[[:^space:]]",
    "[[:wor:]]",
    "[z-a]",
    "[a-",
    "{2}",
    "{1,3}",
    "{,2}",
    "{3,1}",
    "{0}",
    "{1001}",
    "(?i)",
    "(?s:",
    "(?-i)",
    "(?P<a>",
    "(?<b>",
    "(?=",
    "&&",
];

/// Classes, each with characters in it.
const CLASSES: [(&str, &str); 40] = [
    (".", "ak-K"),
    ("\\d", "019"),
    ("\\D", "a-\n"),
    ("\\s", " \t\n"),
    ("\\S", "a0\u{b}"),
    ("\\w", "aZ_0"),
    ("\\W", "-. "),
    ("\\pL", "aK"),
    ("\\pN", "07"),
    ("\\p{Lu}", "AK"),
    ("\\p{Ll}", "ak"),
    ("\\P{Ll}", "A-"),
    ("\\p{^Lu}", "a-"),
    ("\\p{Latin}", "aS"),
    ("\\p{Common}", "-0"),
    ("\\p{Greek}", "a"),
    ("\\pP", "-._"),
    ("\\p{Sm}", "+|"),
    ("\\p{Any}", "a\n"),
    ("[a-c]", "abc"),
    ("[^a-c]", "d\nK"),
    ("[-a]", "-a"),
    ("[a-]", "-a"),
    ("[]a]", "]a"),
    ("[^]a]", "b"),
    ("[[:alnum:]_]", "a_9"),
    ("[[:^alpha:]]", "0-"),
    ("[[:punct:]]", "-.!"),
    ("[[:lower:]0]", "a0"),
    ("[[:upper:]]", "AS"),
    ("[\\d-z]", "5-z"),
    ("[\\w.]", "a."),
    ("[\\pN\\-]", "3-"),
    ("[\\x41-\\x{5a}]", "AZ"),
    ("[!-~]", "a&"),
    ("[a&&b]", "a&b"),
    ("[ſ-\u{180}]", "s"),
    ("[\u{212a}]", "kK"),
    ("[K-\u{e9}]", "Kz"),
    ("[\\x{d800}-\\x{e000}]", "a"),
];

/// Pieces that match only one string, each with that string.
const LITERALS: [(&str, &str); 28] = [
    ("a", "a"),
    ("b", "b"),
    ("k", "k"),
    ("S", "S"),
    ("-", "-"),
    ("_", "_"),
    ("7", "7"),
    ("\\.", "."),
    ("\\-", "-"),
    ("\\_", "_"),
    ("\\x61", "a"),
    ("\\x{4B}", "K"),
    ("\\141", "a"),
    ("\\060", "0"),
    ("\\n", "\n"),
    ("\\t", "\t"),
    ("\\Qa.*b\\E", "a.*b"),
    ("\\Q\\E", ""),
    ("orders", "orders"),
    ("{", "{"),
    ("{,2}", "{,2}"),
    ("a{02}", "a{02}"),
    ("}", "}"),
    ("é", "é"),
    ("ſ", "s"),
    ("\u{212a}", "k"),
    ("\u{1f600}", "\u{1f600}"),
    ("", ""),
];

const REPEATS: [(&str, usize, usize); 14] = [
    ("*", 0, 3),
    ("+", 1, 3),
    ("?", 0, 1),
    ("*?", 0, 3),
    ("+?", 1, 2),
    ("??", 0, 1),
    ("{2}", 2, 2),
    ("{0}", 0, 0),
    ("{0,2}", 0, 2),
    ("{1,3}?", 1, 3),
    ("{2,}", 2, 4),
    ("{0,}", 0, 2),
    ("{3,5}", 3, 5),
    ("{12}", 12, 12),
];

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn alternation(&mut self, expression: &mut String, sample: &mut String, depth: usize) {
        let alternatives = if self.one_in(3) { 2 + self.below(2) } else { 1 };
        let chosen = self.below(alternatives);
        for number in 0..alternatives {
            if number > 0 {
                expression.push('|');
            }
            let mut other = String::new();
            let to = if number == chosen { &mut *sample } else { &mut other };
            for _ in 0..self.below(5) {
                self.repeated(expression, to, depth);
            }
        }
    }

    fn repeated(&mut self, expression: &mut String, sample: &mut String, depth: usize) {
        let mut once = String::new();
        self.atom(expression, &mut once, depth);
        if !self.one_in(3) {
            sample.push_str(&once);
            return;
        }
        let (text, min, max) = *self.pick(&REPEATS);
        expression.push_str(text);
        let times = min + self.below(max - min + 1);
        sample.push_str(&once.repeat(times));
        if self.one_in(30) {
            expression.push_str(["(?i)*", "\\Q\\E+", "*", "(?s){2}"][self.below(4)]);
        }
    }

    fn atom(&mut self, expression: &mut String, sample: &mut String, depth: usize) {
        match self.below(10) {
            0..=3 => {
                let (text, string) = *self.pick(&LITERALS);
                expression.push_str(text);
                sample.push_str(string);
            }
            4..=6 => {
                let (text, characters) = *self.pick(&CLASSES);
                expression.push_str(text);
                let at = self.below(characters.chars().count());
                sample.extend(characters.chars().nth(at));
            }
            7 => {
                let text = *self.pick(&LOOKS);
                expression.push_str(text);
            }
            _ if depth == 0 => expression.push('z'),
            _ => {
                let open = *self.pick(&OPENINGS);
                expression.push_str(open);
                self.alternation(expression, sample, depth - 1);
                expression.push(')');
            }
        }
    }

    /// Removes, doubles or adds a character.
    fn damage(&mut self, expression: &mut String) {
        let mut characters: Vec<char> = expression.chars().collect();
        if characters.is_empty() {
            return;
        }
        let at = self.below(characters.len());
        match self.below(3) {
            0 => drop(characters.remove(at)),
            1 => characters.insert(at, characters[at]),
            _ => characters.extend(self.pick(&SOUP).chars()),
        }
        *expression = characters.into_iter().collect();
    }

    /// Returns a name: the sample itself (0), with changed case (1), with a letter added (2), with
    /// letters removed (3), or another name. All names are ASCII, like the names of topics.
    fn name(&mut self, sample: &str, number: usize) -> String {
        let mut name: String = sample.chars().filter(char::is_ascii).collect();
        match number {
            0 => {}
            1 => name = name.chars().map(|c| turned(c, self.one_in(2))).collect(),
            2 => name.push(self.letter()),
            3 => {
                let kept = name.char_indices().filter(|_| !self.one_in(5));
                name = kept.map(|(_, c)| c).collect();
            }
            _ => name = (0..self.below(6)).map(|_| self.letter()).collect(),
        }
        name
    }

    fn letter(&mut self) -> char {
        *self.pick(&[
            'a', 'b', 'c', 'k', 'K', 's', 'S', 'z', '0', '7', '-', '_', '.', ' ', '\n', '|',
        ])
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random() % end as u64) as usize
    }

    /// The generator splitmix64.
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.state;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }
}

const LOOKS: [&str; 8] = ["^", "$", "\\b", "\\B", "\\A", "\\z", "(?m)", "(?i)"];

const OPENINGS: [&str; 10] =
    ["(", "(?:", "(?i:", "(?s:", "(?m-s:", "(?U:", "(?-i:", "(?is)(", "(?P<n>", "(?<m>"];

fn turned(c: char, turns: bool) -> char {
    match turns {
        true if c.is_ascii_uppercase() => c.to_ascii_lowercase(),
        true => c.to_ascii_uppercase(),
        false => c,
    }
}
