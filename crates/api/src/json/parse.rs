//! Reads the text and, where it is no JSON, guesses what was meant.

use super::{Member, Node, SyntaxError, Value, shorten};
use crate::finding::Position;

/// Deeper nesting than any configuration needs; keeps hostile input off the stack.
pub(super) const MAX_DEPTH: usize = 128;

/// Reads one JSON value that fills the whole text.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    let mut parser = Parser { text, rest: text, at: Position { line: 1, column: 1 }, depth: 0 };
    if text.starts_with('\u{feff}') {
        let error = parser.error("JSON must not start with a byte order mark", "remove it");
        return Err(SyntaxError { found: "U+FEFF".to_owned(), ..error });
    }
    parser.skip_space();
    let node = parser.value()?;
    parser.skip_space();
    if parser.rest.is_empty() {
        return Ok(node);
    }
    Err(parser.comment_or("the text must end after the value", "remove what follows the value"))
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    at: Position,
    depth: usize,
}

impl Parser<'_> {
    fn value(&mut self) -> Result<Node, SyntaxError> {
        let at = self.at;
        let value = match self.peek() {
            Some('{') => Value::Object(self.nested(Self::members)?),
            Some('[') => Value::Array(self.nested(Self::items)?),
            Some('"') => Value::String(self.string()?),
            Some('-' | '0'..='9') => Value::Number(self.number()?),
            _ => self.word()?,
        };
        Ok(Node { at, value })
    }

    fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, SyntaxError>,
    ) -> Result<T, SyntaxError> {
        if self.depth == MAX_DEPTH {
            let rule = format!("values may be nested at most {MAX_DEPTH} deep");
            return Err(self.error(&rule, "flatten the value"));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    fn members(&mut self) -> Result<Vec<Member>, SyntaxError> {
        let open = self.at;
        self.bump();
        let mut members = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some('"') => {}
                Some('}') if members.is_empty() => break self.bump(),
                Some('}') => return Err(self.trailing_comma('}')),
                None => return Err(self.unclosed('{', open)),
                Some(_) => return Err(self.bad_name()),
            }
            let at = self.at;
            let name = self.string()?;
            self.skip_space();
            if self.peek() != Some(':') {
                return Err(self.comment_or("expected `:` after the name", "put a colon here"));
            }
            self.bump();
            self.skip_space();
            let node = self.value()?;
            members.push(Member { at, name, node });
            if self.separator('}', '{', open)? {
                break;
            }
        }
        Ok(members)
    }

    fn items(&mut self) -> Result<Vec<Node>, SyntaxError> {
        let open = self.at;
        self.bump();
        let mut items = Vec::new();
        loop {
            self.skip_space();
            match self.peek() {
                Some(']') if items.is_empty() => break self.bump(),
                Some(']') => return Err(self.trailing_comma(']')),
                None => return Err(self.unclosed('[', open)),
                Some(_) => items.push(self.value()?),
            }
            if self.separator(']', '[', open)? {
                break;
            }
        }
        Ok(items)
    }

    /// Reads the comma or the closing bracket after a value; true when closed.
    fn separator(
        &mut self,
        close: char,
        opener: char,
        open: Position,
    ) -> Result<bool, SyntaxError> {
        let last_line = self.at.line;
        self.skip_space();
        match self.peek() {
            Some(',') => {
                self.bump();
                Ok(false)
            }
            Some(c) if c == close => {
                self.bump();
                Ok(true)
            }
            None => Err(self.unclosed(opener, open)),
            Some(c) => Err(self.missing_comma(c, close, last_line)),
        }
    }

    fn missing_comma(&self, found: char, close: char, last_line: usize) -> SyntaxError {
        let expected = format!("expected , or {close}");
        let starts_value = matches!(found, '"' | '{' | '[' | '-' | '0'..='9' | 't' | 'f' | 'n');
        if !starts_value {
            return self.comment_or(&expected, &format!("put a comma or {close} here"));
        }
        if last_line == self.at.line {
            return self.error(
                &format!("{expected}; a comma is missing before it"),
                "put a comma between the two values",
            );
        }
        self.error(
            &format!("{expected}; missing comma after line {last_line}"),
            &format!("put a comma at the end of line {last_line}"),
        )
    }

    fn trailing_comma(&self, close: char) -> SyntaxError {
        self.error(
            &format!("no comma may stand before {close}"),
            "remove the comma before it, or add the entry that is missing",
        )
    }

    fn unclosed(&self, opener: char, open: Position) -> SyntaxError {
        let close = if opener == '{' { '}' } else { ']' };
        self.error(
            &format!("the {opener} of {open} is never closed"),
            &format!("add the missing {close}"),
        )
    }

    fn bad_name(&self) -> SyntaxError {
        let rule = "expected a name in double quotes";
        match self.peek() {
            Some('\'') => self.error(rule, "use double quotes instead of single quotes"),
            Some(c) if c.is_alphabetic() || c == '_' => {
                self.error(rule, "put the name in double quotes")
            }
            _ => self.comment_or(rule, "put a name in double quotes here"),
        }
    }

    /// `true`, `false`, `null`, or one of the words people write instead.
    fn word(&mut self) -> Result<Value, SyntaxError> {
        let length = self.rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(self.rest.len());
        let value = match &self.rest[..length] {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            _ => return Err(self.bad_value()),
        };
        self.skip(length);
        Ok(value)
    }

    fn bad_value(&self) -> SyntaxError {
        let rule = "expected a value";
        let lower = self.rest.chars().take(9).collect::<String>().to_lowercase();
        match self.peek() {
            Some('\'') => self.error(rule, "use double quotes instead of single quotes"),
            Some('+' | '.') => {
                self.error(rule, "write numbers as in 0.5, with a digit first and no plus sign")
            }
            Some(_) if lower.starts_with("true") || lower.starts_with("false") => {
                self.error(rule, "write true or false in lower case")
            }
            Some(_) if lower.starts_with("none") || lower.starts_with("nil") => {
                self.error(rule, "write null, or remove the field")
            }
            Some(_) if lower.starts_with("nan") || lower.starts_with("inf") => {
                self.error(rule, "use a finite number")
            }
            Some(',' | '}' | ']') => {
                self.error("a value is missing", "add it, or remove the comma or name before it")
            }
            None => self.error("a value is missing", "add the value"),
            _ => self.comment_or(rule, "put a JSON value here; texts need double quotes"),
        }
    }

    fn number(&mut self) -> Result<String, SyntaxError> {
        let length =
            self.rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E'));
        let text = &self.rest[..length.unwrap_or(self.rest.len())];
        if !is_number(text) {
            return Err(self.error(
                "a number has the form -12, 0.5 or 1e9",
                "write it without leading zeros and with digits around the point",
            ));
        }
        let text = text.to_owned();
        self.skip(text.len());
        Ok(text)
    }

    fn string(&mut self) -> Result<String, SyntaxError> {
        let open = self.at;
        self.bump();
        let mut text = String::new();
        loop {
            match self.peek() {
                Some('"') => break self.bump(),
                Some('\\') => text.push(self.escape()?),
                Some(c) if c >= ' ' => {
                    text.push(c);
                    self.bump();
                }
                found => {
                    let found = found.map_or("end of text".to_owned(), |c| format!("{c:?}"));
                    return Err(SyntaxError {
                        at: open,
                        found,
                        rule: "the text that opens here must be closed by \" on the same line"
                            .to_owned(),
                        fix: "add the closing quote; write a line break as \\n".to_owned(),
                    });
                }
            }
        }
        Ok(text)
    }

    fn escape(&mut self) -> Result<char, SyntaxError> {
        let bad =
            self.error("unknown escape", "use one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
        self.bump();
        let Some(letter) = self.peek() else { return Err(bad) };
        self.bump();
        Ok(match letter {
            '"' | '\\' | '/' => letter,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let Some(first) = self.hex() else { return Err(bad) };
                self.surrogate_pair(first)
            }
            _ => return Err(bad),
        })
    }

    /// Half a surrogate pair reads as the replacement character, as in the reference's reader.
    fn surrogate_pair(&mut self, first: u32) -> char {
        if (0xd800..0xdc00).contains(&first) && self.rest.starts_with("\\u") {
            let before = (self.rest, self.at);
            self.skip(2);
            if let Some(second) = self.hex().filter(|unit| (0xdc00..0xe000).contains(unit)) {
                let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
            (self.rest, self.at) = before;
        }
        char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.rest.get(..4)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let code = u32::from_str_radix(digits, 16).ok()?;
        self.skip(4);
        Some(code)
    }

    fn comment_or(&self, rule: &str, fix: &str) -> SyntaxError {
        match self.peek() {
            Some('#' | '/') => self.error(
                &format!("{rule}; JSON has no comments"),
                "remove the comment, or move it into the YAML around the value",
            ),
            _ => self.error(rule, fix),
        }
    }

    fn error(&self, rule: &str, fix: &str) -> SyntaxError {
        let token = self.rest.lines().next().unwrap_or_default().trim_end();
        let found = if self.rest.is_empty() {
            if self.text.trim().is_empty() { "no text" } else { "end of text" }.to_owned()
        } else {
            shorten(token)
        };
        SyntaxError { at: self.at, found, rule: rule.to_owned(), fix: fix.to_owned() }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) {
        let mut chars = self.rest.chars();
        match chars.next() {
            Some('\n') => self.at = Position { line: self.at.line + 1, column: 1 },
            Some(_) => self.at.column += 1,
            None => {}
        }
        self.rest = chars.as_str();
    }

    /// Moves over `bytes` bytes that are known to be ASCII without line breaks.
    fn skip(&mut self, bytes: usize) {
        self.at.column += bytes;
        self.rest = &self.rest[bytes..];
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(' ' | '\t' | '\r' | '\n')) {
            self.bump();
        }
    }
}

fn is_number(text: &str) -> bool {
    let text = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    digits(whole)
        && (whole.len() == 1 || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['+', '-']).unwrap_or(text)))
}
