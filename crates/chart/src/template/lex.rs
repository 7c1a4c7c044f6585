//! Where does the text end and the action begin?

/// What is wrong, and in which line.
pub(super) type Wrong = (usize, String);

/// A piece of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Action { line: usize, words: Vec<Word> },
}

/// A word of an action.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Word {
    /// A keyword or a function.
    Name(String),
    /// `.`, or `.A.B` as its names.
    Field(Vec<String>),
    /// `$` as the empty name, or `$x`; with the fields behind it.
    Variable(String, Vec<String>),
    Text(String),
    Number(i64),
    Open,
    Close,
    Pipe,
    Comma,
    Declare,
    Assign,
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";

/// Splits a template, with white space trimmed as its markers say.
pub(super) fn pieces(text: &str) -> Result<Vec<Piece>, Wrong> {
    let mut pieces = Vec::new();
    let (mut rest, mut line, mut is_trimming) = (text, 1usize, false);
    while let Some((before, after)) = rest.split_once(OPEN) {
        let start = line.saturating_add(before.matches('\n').count());
        let (trims_before, body) = match after.strip_prefix("- ") {
            Some(_) => (true, after.get(1..).unwrap_or_default()),
            None if after.starts_with("-\n") => (true, after.get(1..).unwrap_or_default()),
            None => (false, after),
        };
        push_text(&mut pieces, before, is_trimming, trims_before);
        let end = close(body).ok_or((start, "an action is not closed with }}".to_owned()))?;
        let (inside, tail) = body.split_at_checked(end).unwrap_or((body, ""));
        let tail = tail.strip_prefix(CLOSE).unwrap_or(tail);
        let trimmed = inside
            .strip_suffix('-')
            .filter(|inside| inside.ends_with(char::is_whitespace) || inside.ends_with("*/ "));
        is_trimming = trimmed.is_some();
        let inside = trimmed.unwrap_or(inside).trim();
        if !(inside.starts_with("/*") && inside.ends_with("*/")) {
            let words = words(inside).map_err(|what| (start, what))?;
            pieces.push(Piece::Action { line: start, words });
        }
        let passed = rest.len().saturating_sub(tail.len());
        line = line.saturating_add(rest.get(..passed).unwrap_or(rest).matches('\n').count());
        rest = tail;
    }
    push_text(&mut pieces, rest, is_trimming, false);
    Ok(pieces)
}

fn push_text(pieces: &mut Vec<Piece>, text: &str, trims_start: bool, trims_end: bool) {
    let text = if trims_start { text.trim_start() } else { text };
    let text = if trims_end { text.trim_end() } else { text };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
}

/// Where the action ends; quotes and remarks may hold braces.
fn close(body: &str) -> Option<usize> {
    let trimmed = body.trim_start();
    if trimmed.starts_with("/*") {
        let end = body.find("*/")?;
        return body.get(end..)?.find(CLOSE).map(|at| end.saturating_add(at));
    }
    let mut quote = None;
    let mut is_escaped = false;
    for (at, letter) in body.char_indices() {
        match quote {
            Some('"') if is_escaped => is_escaped = false,
            Some('"') if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => quote = None,
            Some(_) => {}
            None if letter == '"' || letter == '`' => quote = Some(letter),
            None if body.get(at..).is_some_and(|rest| rest.starts_with(CLOSE)) => return Some(at),
            None => {}
        }
    }
    None
}

fn words(inside: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut rest = inside.trim_start();
    while let Some(first) = rest.chars().next() {
        let (word, tail) = match first {
            '(' => (Word::Open, skip(rest, 1)),
            ')' => (Word::Close, skip(rest, 1)),
            '|' => (Word::Pipe, skip(rest, 1)),
            ',' => (Word::Comma, skip(rest, 1)),
            '=' => (Word::Assign, skip(rest, 1)),
            ':' if rest.starts_with(":=") => (Word::Declare, skip(rest, 2)),
            '.' => {
                let (fields, tail) = fields(rest);
                (Word::Field(fields), tail)
            }
            '$' => {
                let (name, tail) = name(skip(rest, 1));
                let (fields, tail) =
                    if tail.starts_with('.') { fields(tail) } else { (Vec::new(), tail) };
                (Word::Variable(name.to_owned(), fields), tail)
            }
            '"' => quoted(rest)?,
            '`' => {
                let (text, tail) = skip(rest, 1).split_once('`').ok_or("a quote is not closed")?;
                (Word::Text(text.to_owned()), tail)
            }
            '-' | '0'..='9' => number(rest)?,
            _ if first.is_alphabetic() || first == '_' => {
                let (name, tail) = name(rest);
                (Word::Name(name.to_owned()), tail)
            }
            _ => return Err(format!("{first:?} is outside of what is understood here")),
        };
        words.push(word);
        rest = tail.trim_start();
    }
    Ok(words)
}

fn skip(text: &str, bytes: usize) -> &str {
    text.get(bytes..).unwrap_or_default()
}

fn name(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// `.A.B` as names; a lone dot has none.
fn fields(text: &str) -> (Vec<String>, &str) {
    let (mut fields, mut rest) = (Vec::new(), text);
    while let Some(after) = rest.strip_prefix('.') {
        let (field, tail) = name(after);
        if field.is_empty() {
            return (fields, after);
        }
        fields.push(field.to_owned());
        rest = tail;
    }
    (fields, rest)
}

fn quoted(text: &str) -> Result<(Word, &str), String> {
    let mut is_escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => {
                let end = at.saturating_add(1);
                let (word, tail) = text.split_at_checked(end).unwrap_or((text, ""));
                let read = serde_json::from_str(word)
                    .map_err(|_| format!("{word} has an escape that is not understood here"))?;
                return Ok((Word::Text(read), tail));
            }
            _ => {}
        }
    }
    Err("a quote is not closed".to_owned())
}

fn number(text: &str) -> Result<(Word, &str), String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (word, _) = name(digits);
    let length = word.len().saturating_add(text.len().saturating_sub(digits.len()));
    let (word, tail) = text.split_at_checked(length).unwrap_or((text, ""));
    match word.parse() {
        Ok(number) if !tail.starts_with('.') => Ok((Word::Number(number), tail)),
        _ => Err(format!("{word:?} is no whole number")),
    }
}
