//! Which text is printed when?

use std::collections::BTreeMap;

use super::lex::{Piece, Word, Wrong, pieces};

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Text(String),
    Print { line: usize, pipe: Pipe },
    Set { line: usize, name: String, declares: bool, pipe: Pipe },
    If { branches: Vec<(usize, Pipe, Vec<Node>)>, otherwise: Vec<Node> },
    With { line: usize, pipe: Pipe, body: Vec<Node>, otherwise: Vec<Node> },
    Range { line: usize, names: Vec<String>, pipe: Pipe, body: Vec<Node>, otherwise: Vec<Node> },
}

/// Commands, each of which is the last argument of the next.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pipe(pub(super) Vec<Command>);

/// A term, or a function with its arguments.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Command {
    pub(super) head: Term,
    pub(super) arguments: Vec<Term>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Term {
    /// Fields of the context.
    Field(Vec<String>),
    /// A variable and its fields.
    Variable(String, Vec<String>),
    Text(String),
    Number(i64),
    Bool(bool),
    Nil,
    Function(String),
    Pipe(Pipe),
}

/// A template, read.
#[derive(Debug, Default)]
pub(super) struct Parsed {
    pub(super) nodes: Vec<Node>,
    pub(super) defined: BTreeMap<String, Vec<Node>>,
}

pub(super) fn parse(text: &str) -> Result<Parsed, Wrong> {
    let mut reader = Reader { pieces: pieces(text)?.into_iter(), defined: BTreeMap::new() };
    let (nodes, end) = reader.block()?;
    match end {
        Stop::File => Ok(Parsed { nodes, defined: reader.defined }),
        Stop::End(line) => Err((line, "end without a beginning".to_owned())),
        Stop::Else(line, _) => Err((line, "else without if, with or range".to_owned())),
    }
}

/// What ended a block.
enum Stop {
    File,
    End(usize),
    /// With the words after `else`.
    Else(usize, Vec<Word>),
}

struct Reader {
    pieces: std::vec::IntoIter<Piece>,
    defined: BTreeMap<String, Vec<Node>>,
}

/// Words of Go's templates that the chart has no use for.
const STRANGE: &[&str] = &["template", "block", "break", "continue"];

impl Reader {
    fn block(&mut self) -> Result<(Vec<Node>, Stop), Wrong> {
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.next() {
            let (line, words) = match piece {
                Piece::Text(text) => {
                    nodes.push(Node::Text(text));
                    continue;
                }
                Piece::Action { line, words } => (line, words),
            };
            let (keyword, rest) = match words.split_first() {
                Some((Word::Name(name), rest)) => (name.as_str(), rest),
                _ => ("", words.as_slice()),
            };
            match keyword {
                "end" => return Ok((nodes, Stop::End(line))),
                "else" => return Ok((nodes, Stop::Else(line, rest.to_vec()))),
                "if" => nodes.push(self.condition(line, rest)?),
                "with" => {
                    let pipe = pipe(rest).map_err(at(line))?;
                    let (body, otherwise) = self.body(line)?;
                    nodes.push(Node::With { line, pipe, body, otherwise });
                }
                "range" => nodes.push(self.range(line, rest)?),
                "define" => self.define(line, rest)?,
                word if STRANGE.contains(&word) => {
                    return Err((line, format!("{word} is outside of what is understood here")));
                }
                _ => nodes.push(statement(line, &words)?),
            }
        }
        Ok((nodes, Stop::File))
    }

    fn condition(&mut self, line: usize, words: &[Word]) -> Result<Node, Wrong> {
        let mut branches = Vec::new();
        let (mut at_line, mut condition) = (line, pipe(words).map_err(at(line))?);
        loop {
            let (body, end) = self.block()?;
            branches.push((at_line, condition, body));
            match end {
                Stop::End(_) => return Ok(Node::If { branches, otherwise: Vec::new() }),
                Stop::File => return Err((line, "if without end".to_owned())),
                Stop::Else(_, words) if words.is_empty() => {
                    let otherwise = self.last(line)?;
                    return Ok(Node::If { branches, otherwise });
                }
                Stop::Else(line, words) => match words.split_first() {
                    Some((Word::Name(name), rest)) if name == "if" => {
                        (at_line, condition) = (line, pipe(rest).map_err(at(line))?);
                    }
                    _ => return Err((line, "after else comes if, or nothing".to_owned())),
                },
            }
        }
    }

    fn range(&mut self, line: usize, words: &[Word]) -> Result<Node, Wrong> {
        let mut names = Vec::new();
        let mut rest = words;
        if words.contains(&Word::Declare) {
            loop {
                let (Some(Word::Variable(name, fields)), Some(next)) = (rest.first(), rest.get(1))
                else {
                    return Err((line, "range declares variables".to_owned()));
                };
                if !fields.is_empty() {
                    return Err((line, "a declared variable has no fields".to_owned()));
                }
                names.push(name.clone());
                rest = rest.get(2..).unwrap_or_default();
                match next {
                    Word::Declare => break,
                    Word::Comma if names.len() == 1 => {}
                    _ => return Err((line, "range declares one or two variables".to_owned())),
                }
            }
        }
        let pipe = pipe(rest).map_err(at(line))?;
        let (body, otherwise) = self.body(line)?;
        Ok(Node::Range { line, names, pipe, body, otherwise })
    }

    fn define(&mut self, line: usize, words: &[Word]) -> Result<(), Wrong> {
        let [Word::Text(name)] = words else {
            return Err((line, "define needs a name in quotes".to_owned()));
        };
        let (body, end) = self.block()?;
        if !matches!(end, Stop::End(_)) {
            return Err((line, "define without end".to_owned()));
        }
        if self.defined.insert(name.clone(), body).is_some() {
            return Err((line, format!("{name:?} is defined twice")));
        }
        Ok(())
    }

    /// What stands before `else`, and after it.
    fn body(&mut self, line: usize) -> Result<(Vec<Node>, Vec<Node>), Wrong> {
        let (body, end) = self.block()?;
        match end {
            Stop::End(_) => Ok((body, Vec::new())),
            Stop::Else(_, words) if words.is_empty() => Ok((body, self.last(line)?)),
            Stop::Else(line, _) => Err((line, "after this else comes nothing".to_owned())),
            Stop::File => Err((line, "this has no end".to_owned())),
        }
    }

    fn last(&mut self, line: usize) -> Result<Vec<Node>, Wrong> {
        match self.block()? {
            (body, Stop::End(_)) => Ok(body),
            _ => Err((line, "after else comes end".to_owned())),
        }
    }
}

fn at(line: usize) -> impl Fn(String) -> Wrong {
    move |what| (line, what)
}

fn statement(line: usize, words: &[Word]) -> Result<Node, Wrong> {
    if let [Word::Variable(name, fields), sign @ (Word::Declare | Word::Assign), rest @ ..] = words
        && fields.is_empty()
    {
        let (declares, pipe) = (*sign == Word::Declare, pipe(rest).map_err(at(line))?);
        return Ok(Node::Set { line, name: name.clone(), declares, pipe });
    }
    Ok(Node::Print { line, pipe: pipe(words).map_err(at(line))? })
}

fn pipe(words: &[Word]) -> Result<Pipe, String> {
    let mut rest = words;
    let pipe = piped(&mut rest)?;
    match rest.first() {
        None => Ok(pipe),
        Some(Word::Close) => Err("there is one ) too many".to_owned()),
        Some(_) => Err("an action says more than one thing".to_owned()),
    }
}

/// Reads commands up to a closing bracket.
fn piped(rest: &mut &[Word]) -> Result<Pipe, String> {
    let mut commands = Vec::new();
    let mut terms: Vec<Term> = Vec::new();
    loop {
        let next = rest.split_first();
        if let Some((word, tail)) = next
            && !matches!(word, Word::Pipe | Word::Close)
        {
            *rest = tail;
            terms.push(term(word, rest)?);
            continue;
        }
        let mut parts = std::mem::take(&mut terms).into_iter();
        let head = parts.next().ok_or("something is missing here")?;
        let arguments: Vec<Term> = parts.collect();
        let takes = matches!(&head, Term::Function(_) | Term::Field(_) | Term::Variable(..));
        if !takes && (!arguments.is_empty() || !commands.is_empty()) {
            return Err("only functions have arguments".to_owned());
        }
        commands.push(Command { head, arguments });
        match next {
            Some((Word::Pipe, tail)) => *rest = tail,
            _ => return Ok(Pipe(commands)),
        }
    }
}

fn term(word: &Word, rest: &mut &[Word]) -> Result<Term, String> {
    Ok(match word {
        Word::Field(names) => Term::Field(names.clone()),
        Word::Variable(name, fields) => Term::Variable(name.clone(), fields.clone()),
        Word::Text(text) => Term::Text(text.clone()),
        Word::Number(number) => Term::Number(*number),
        Word::Name(name) => match name.as_str() {
            "true" => Term::Bool(true),
            "false" => Term::Bool(false),
            "nil" => Term::Nil,
            _ => Term::Function(name.clone()),
        },
        Word::Open => {
            let inner = piped(rest)?;
            match rest.split_first() {
                Some((Word::Close, tail)) => *rest = tail,
                _ => return Err("a ( is not closed".to_owned()),
            }
            Term::Pipe(inner)
        }
        Word::Declare | Word::Assign => return Err("variables are set at the start".to_owned()),
        Word::Comma | Word::Pipe | Word::Close => return Err("a word is missing here".to_owned()),
    })
}
