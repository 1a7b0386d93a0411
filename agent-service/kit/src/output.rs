//! Data for stdout: a table for a person at a terminal, JSON for everything else.
//!
//! This decides and formats; writing is the caller's. Words for people go to stderr, not here.

use std::io::IsTerminal as _;

/// How data is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// Columns with a heading.
    Table,
    /// JSON.
    Json,
}

impl Output {
    /// What a flag asks for; without one, what stdout is.
    pub fn choose(asked: Option<Self>) -> Self {
        let fitting = if std::io::stdout().is_terminal() { Self::Table } else { Self::Json };
        asked.unwrap_or(fitting)
    }
}

impl std::str::FromStr for Output {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "table" => Ok(Self::Table),
            "json" => Ok(Self::Json),
            _ => Err("must be `table` or `json`"),
        }
    }
}

/// Rows in columns that are as wide as their widest cell, under a heading.
///
/// Control characters in cells become spaces: what a service says must not steer the terminal.
/// The last column is not padded; every line ends with a newline.
pub fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(str::to_owned);
    let lines: Vec<[String; N]> = std::iter::once(&heading)
        .chain(rows)
        .map(|row| row.clone().map(|cell| plain(&cell)))
        .collect();
    let mut widths = [0; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (width, cell) in widths.iter().zip(line) {
            padded.push_str(cell);
            let missing = width.saturating_sub(cell.chars().count());
            padded.extend(std::iter::repeat_n(' ', missing.saturating_add(2)));
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

fn plain(cell: &str) -> String {
    cell.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a".to_owned(), "bcd".to_owned()], ["äöüä".to_owned(), String::new()]];
        assert_eq!(table(["ID", "NAME"], &rows), "ID    NAME\na     bcd\näöüä\n");
    }

    #[test]
    fn a_table_without_rows_is_its_heading() {
        assert_eq!(table(["ID", "NAME"], &[]), "ID  NAME\n");
    }

    #[test]
    fn cells_do_not_steer_the_terminal() {
        let rows = [["a\x1b[2Jb\nc".to_owned()]];
        assert_eq!(table(["X"], &rows), "X\na [2Jb c\n");
    }

    #[test]
    fn a_flag_decides_over_what_stdout_is() {
        assert_eq!(Output::choose(Some(Output::Table)), Output::Table);
        assert_eq!(Output::choose(Some(Output::Json)), Output::Json);
        assert_eq!("table".parse(), Ok(Output::Table));
        assert!("xml".parse::<Output>().is_err());
    }
}
