//! Text in columns, for terminals and for `grep`.
//!
//! Cells come from anybody: whatever would steer a terminal is taken out here, so that no command can forget to.

use grounding_proto::text::printable;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// What stands in the place of what was cut.
const ELLIPSIS: char = '…';

/// Returns the rows in columns, below the headings.
#[must_use]
pub fn table<const N: usize>(headings: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let rows = std::iter::once(headings.map(str::to_owned)).chain(rows);
    let lines: Vec<_> = rows.map(|row| row.map(|cell| printable(&cell))).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].width()).max().unwrap_or_default();
    let widths: Vec<_> = (0..N).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut shown = String::new();
        for (cell, width) in line.iter().zip(&widths) {
            shown.push_str(cell);
            shown.extend(std::iter::repeat_n(' ', width - cell.width() + 2));
        }
        text.push_str(shown.trim_end());
        text.push('\n');
    }
    text
}

/// Returns as much of a line as fits so many columns of a terminal; what is cut is shown to be.
#[must_use]
pub fn cut(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut shown = String::new();
    let mut used = 0;
    for character in line.chars() {
        used += character.width().unwrap_or_default();
        if used >= columns {
            break;
        }
        shown.push(character);
    }
    shown.push(ELLIPSIS);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_hold_nothing_active() {
        let row = |a: &str, b: &str| [a.to_owned(), b.to_owned()];
        let text = table(["A", "B"], [row("x\u{1b}[31m", "1"), row("日本", "2\n3"), row("", "4")]);
        assert_eq!(text, "A       B\nx?[31m  1\n日本    2 3\n        4\n");
    }

    #[test]
    fn a_cut_line_says_so_and_fits() {
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("abcd", 3), "ab…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 6), "日本語");
    }
}
