//! The command line as a page: every command's own help, found by walking the
//! lists of commands that the help prints.

use anyhow::{Result, ensure};

/// No program nests its commands deeper; a loop in the listing would.
const DEEPEST: usize = 5;

/// Asks the program with these arguments for what it prints.
pub(crate) type Ask<'a> = dyn FnMut(&[&str]) -> Result<String> + 'a;

pub(crate) fn page(ask: &mut Ask<'_>) -> Result<String> {
    let mut sections = Vec::new();
    walk(ask, &[], &mut sections)?;
    let mut page = String::from("# Command line\n\nEvery command and its `--help`.\n");
    for (command, help) in sections {
        let help: Vec<_> = help.trim().lines().map(str::trim_end).collect();
        page.push_str(&format!("\n## `{command}`\n\n```text\n{}\n```\n", help.join("\n")));
    }
    Ok(page)
}

fn walk(ask: &mut Ask<'_>, command: &[&str], sections: &mut Vec<(String, String)>) -> Result<()> {
    let spelled = [&["tidepool"], command].concat().join(" ");
    ensure!(command.len() <= DEEPEST, "{spelled}: commands nest without end");
    let help = ask(&[command, &["--help"]].concat())?;
    sections.push((spelled, help.clone()));
    for name in subcommands(&help) {
        walk(ask, &[command, &[name]].concat(), sections)?;
    }
    Ok(())
}

/// Names in the sections of a help text whose heading ends in `ommands:`. Each
/// name stands two columns in; descriptions that wrap stand deeper.
pub(crate) fn subcommands(help: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut in_commands = false;
    for line in help.lines() {
        if !line.starts_with(' ') && !line.is_empty() {
            in_commands = line.ends_with("ommands:");
        } else if let Some(entry) = line.strip_prefix("  ").filter(|_| in_commands) {
            let name = entry.split([' ', ',']).next().unwrap_or_default();
            // `help` only repeats what `--help` says.
            if !name.is_empty() && !name.starts_with('-') && name != "help" {
                names.push(name);
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOP: &str = "Runs batch work.\n\nUsage: tidepool [COMMAND]\n\nCommands:\n  \
        up      Starts\n          everything\n  config  Checks\n  help    Print this message\n\n\
        Options:\n  -h, --help  Print help\n\nExamples:\n  tidepool up\n";

    #[test]
    fn only_the_lists_of_commands_are_read() {
        assert_eq!(subcommands(TOP), ["up", "config"]);
        assert_eq!(subcommands("Node commands:\n  drain, d  Empties\n"), ["drain"]);
        assert_eq!(subcommands("Options:\n  up  no\n"), [] as [&str; 0]);
    }

    #[test]
    fn every_command_gets_a_section_in_order() {
        let mut asked = |arguments: &[&str]| {
            Ok(match arguments {
                ["--help"] => TOP.to_owned(),
                ["config", "--help"] => "Checks   \n\nCommands:\n  check  One file\n".to_owned(),
                _ => format!("help of {}", arguments.join(" ")),
            })
        };
        let page = page(&mut asked).unwrap();
        let sections: Vec<_> = page.lines().filter(|line| line.starts_with("## ")).collect();
        let want = [
            "## `tidepool`",
            "## `tidepool up`",
            "## `tidepool config`",
            "## `tidepool config check`",
        ];
        assert_eq!(sections, want);
        assert!(page.contains("```text\nhelp of config check --help\n```\n"), "{page}");
        assert!(page.lines().all(|line| line == line.trim_end()));
    }

    #[test]
    fn a_loop_in_the_listing_is_noticed() {
        let mut endless = |_: &[&str]| Ok("Commands:\n  again  And again\n".to_owned());
        assert!(page(&mut endless).unwrap_err().to_string().contains("nest without end"));
    }
}
