//! The findings tables of `05-review-findings.md` (SPEC-workflow 9 to 13).
//!
//! Cells are read as GitHub reads them. What can't be read blocks: no formatting makes an open finding pass.

use std::borrow::Cow;

use memchr::{memchr, memmem};

use super::quotation::quotations;
use super::text::{excerpt, is_blank, lines, trim, trim_start};

/// Most findings that are kept; the others are counted.
pub const MAX_PROBLEMS: usize = 100;

const EXCERPT: usize = 80;
const TEMPLATE: [&str; 5] = [
    "low/medium/high/critical",
    "correctness/architecture/security/tests/maintainability/performance/docs",
    "<!-- finding -->",
    "<!-- fix -->",
    "accepted/defer",
];

/// A row that blocks.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Counted from 1.
    pub line: u64,
    /// Its severity as written, at most 80 characters.
    pub severity: String,
    /// Its description, at most 80 characters; the whole row when it has none.
    pub description: String,
    /// Its decision as written, at most 80 characters.
    pub decision: String,
    /// Why it blocks.
    pub fault: Fault,
}

/// Why a row blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// High or critical, and neither accepted nor deferred.
    Open,
    /// It has more cells than its header.
    TooManyCells,
    /// Its severity is no severity.
    UnknownSeverity,
}

/// What a review says of its findings.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Rows that block, in file order, at most `MAX_PROBLEMS`.
    pub problems: Vec<Problem>,
    /// How many more there are.
    pub omitted: u64,
    /// Line of the template's own row, when no row has a severity.
    pub placeholder: Option<u64>,
    /// Line of a Findings heading with content, when no table can be read.
    pub unreadable_heading: Option<u64>,
}

/// Reads the findings of a review's text.
#[must_use]
pub fn read(text: &str) -> Findings {
    let rows = scan(text);
    let plain = without_comments(text);
    let heading = heading_with_content(&plain);
    let has_table = heading.is_some()
        && match &plain {
            Cow::Borrowed(_) => rows.has_table,
            Cow::Owned(plain) => rows.has_table && scan(plain).has_table,
        };
    Findings {
        problems: rows.problems,
        omitted: rows.omitted,
        placeholder: rows.placeholder.filter(|_| !rows.has_severity),
        unreadable_heading: heading.filter(|_| !has_table),
    }
}

#[derive(Default)]
struct Rows {
    has_table: bool,
    has_severity: bool,
    placeholder: Option<u64>,
    problems: Vec<Problem>,
    omitted: u64,
}

/// Where a table's columns are, in order; there may be several of a name.
struct Header {
    columns: usize,
    severities: Vec<usize>,
    decisions: Vec<usize>,
    description: Option<usize>,
}

fn scan(text: &str) -> Rows {
    let (mut rows, mut header) = (Rows::default(), None);
    let mut quotations = quotations(text).into_iter().peekable();
    for line in lines(text) {
        while quotations.next_if(|quotation| quotation.end <= line.number).is_some() {}
        if quotations.peek().is_some_and(|quotation| quotation.contains(&line.number)) {
            header = None;
            continue;
        }
        if ends_table(line.text) {
            header = None;
            continue;
        }
        let content = content(line.text);
        if content.is_empty() {
            continue;
        } else if let Some(found) = read_header(content) {
            header = Some(found);
            rows.has_table = true;
        } else if let Some(header) = &header {
            rows.add(header, line.number, content);
        }
    }
    rows
}

impl Rows {
    fn add(&mut self, header: &Header, line: u64, content: &str) {
        // A few letters alone or a few pipes are no finding, whatever the header.
        let is_pipe = |byte: u8| byte == b'|';
        if content.len() < "high".len() && (content.bytes().all(is_pipe) || !content.bytes().any(is_pipe)) {
            return;
        }
        let row = Row::read(header, content);
        if row.is_delimiter {
            return;
        }
        if row.is_template {
            self.placeholder.get_or_insert(line);
            return;
        }
        self.has_severity |= is_severity(plain_word(row.severity));
        let Some(fault) = fault(&row, header, content) else { return };
        if self.problems.len() == MAX_PROBLEMS {
            self.omitted += 1;
            return;
        }
        let description = row.description.filter(|cell| !cell.is_empty()).unwrap_or(content);
        self.problems.push(Problem {
            line,
            severity: excerpt(row.severity, EXCERPT),
            description: excerpt(description, EXCERPT),
            decision: excerpt(row.decision, EXCERPT),
            fault,
        });
    }
}

/// Returns why a row blocks, or nothing when it does not.
fn fault(row: &Row<'_>, header: &Header, content: &str) -> Option<Fault> {
    let (severity, decision) = (plain_word(row.severity), plain_word(row.decision));
    let is_resolved = is_resolved(decision);
    if row.cells > header.columns {
        Some(Fault::TooManyCells)
    } else if row.severity.is_empty() {
        // Without a severity it is no finding, unless its columns are shifted.
        let is_shifted = !is_resolved && cells(content).any(|cell| is_grave(plain_word(cell)));
        is_shifted.then_some(Fault::UnknownSeverity)
    } else if is_severity(severity) {
        (is_grave(severity) && !is_resolved).then_some(Fault::Open)
    } else if memchr(b'|', content.as_bytes()).is_none() {
        // A paragraph below a table does not end it, and is no finding unless it is a severity alone.
        None
    } else {
        let is_legend = is_slash_list(severity) && (decision.is_empty() || is_slash_list(decision));
        (!is_legend).then_some(Fault::UnknownSeverity)
    }
}

struct Row<'a> {
    cells: usize,
    /// Of several, the gravest.
    severity: &'a str,
    /// Of several, the first that resolves nothing.
    decision: &'a str,
    description: Option<&'a str>,
    is_delimiter: bool,
    is_template: bool,
}

impl<'a> Row<'a> {
    fn read(header: &Header, content: &'a str) -> Self {
        let mut row =
            Self { cells: 0, severity: "", decision: "", description: None, is_delimiter: true, is_template: true };
        let (mut severities, mut decisions) = (header.severities.iter().peekable(), header.decisions.iter().peekable());
        let mut decision: Option<&str> = None;
        for cell in cells(content) {
            if severities.next_if_eq(&&row.cells).is_some() {
                if weight(cell) > weight(row.severity) {
                    row.severity = cell;
                }
            } else if decisions.next_if_eq(&&row.cells).is_some() {
                decision = decision.filter(|earlier| !is_resolved(plain_word(earlier))).or(Some(cell));
            } else if Some(row.cells) == header.description {
                row.description = Some(cell);
            }
            row.is_delimiter &= is_delimiter(cell);
            row.is_template &= TEMPLATE.get(row.cells) == Some(&cell);
            row.cells += 1;
        }
        // A row that ends before a column of its header has a blank cell there.
        let is_short = decisions.next().is_some();
        row.decision = decision.filter(|cell| !is_short || !is_resolved(plain_word(cell))).unwrap_or_default();
        row.is_template &= row.cells == TEMPLATE.len();
        row
    }
}

fn read_header(content: &str) -> Option<Header> {
    if content.len() < "severity|decision".len() {
        return None;
    }
    let mut header = Header { columns: 0, severities: Vec::new(), decisions: Vec::new(), description: None };
    for cell in cells(content) {
        let word = plain_word(cell);
        if word.eq_ignore_ascii_case("severity") {
            header.severities.push(header.columns);
        } else if word.eq_ignore_ascii_case("decision") {
            header.decisions.push(header.columns);
        } else if word.eq_ignore_ascii_case("description") {
            header.description.get_or_insert(header.columns);
        }
        header.columns += 1;
    }
    (!header.severities.is_empty() && !header.decisions.is_empty()).then_some(header)
}

/// Returns whether the line is blank or a heading, in a list or quote too. Not every white space is that of Markdown.
fn ends_table(line: &str) -> bool {
    let is_space = |character| matches!(character, ' ' | '\t');
    if line.starts_with('|') {
        return false;
    }
    let mut content = line.trim_start_matches(|character| is_space(character) || character == '>');
    content = after_bullet(content).unwrap_or(content);
    let level = content.bytes().take(7).take_while(|byte| *byte == b'#').count();
    let title = &content[level..];
    content.is_empty() || ((1..=6).contains(&level) && (title.is_empty() || title.starts_with(is_space)))
}

/// Returns what follows the bullet or number of a list item.
fn after_bullet(text: &str) -> Option<&str> {
    let digits = text.bytes().take(9).take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        _ => text[digits..].strip_prefix(['.', ')'])?,
    };
    rest.starts_with([' ', '\t']).then(|| rest.trim_start_matches([' ', '\t']))
}

/// Returns a line's text without white space, quote marks and the bullet of a list around it.
fn content(line: &str) -> &str {
    let mut content = trim(line);
    while let Some(quoted) = content.strip_prefix('>') {
        content = trim_start(quoted);
    }
    after_bullet(content).unwrap_or(content)
}

/// Returns the cells of a row, trimmed. A pipe after a backslash splits nothing, and outer pipes bound no cell.
fn cells(content: &str) -> impl Iterator<Item = &str> {
    let bytes = content.as_bytes();
    let mut position = usize::from(bytes.first() == Some(&b'|'));
    let mut is_first = true;
    std::iter::from_fn(move || {
        if position >= bytes.len() && !std::mem::take(&mut is_first) {
            return None;
        }
        is_first = false;
        let start = position.min(bytes.len());
        let is_split = |at: usize| bytes[at] == b'|' && (at == start || bytes[at - 1] != b'\\');
        let end = (start..bytes.len()).find(|at| is_split(*at)).unwrap_or(bytes.len());
        position = end + 1;
        Some(if end == start { "" } else { trim(&content[start..end]) })
    })
}

fn is_severity(word: &str) -> bool {
    ["low", "medium", "high", "critical"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

fn is_grave(severity: &str) -> bool {
    ["high", "critical"].iter().any(|word| severity.eq_ignore_ascii_case(word))
}

fn is_resolved(decision: &str) -> bool {
    ["accepted", "defer"].iter().any(|word| decision.eq_ignore_ascii_case(word))
}

/// Returns how much a severity cell counts beside others: one that can't be read is in between.
fn weight(cell: &str) -> usize {
    let word = plain_word(cell);
    if is_grave(word) {
        3
    } else if is_severity(word) {
        1
    } else if cell.is_empty() {
        0
    } else {
        2
    }
}

fn is_delimiter(cell: &str) -> bool {
    let dashes = cell.strip_prefix(':').unwrap_or(cell);
    let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
    !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
}

/// Returns a cell's text without emphasis and code marks around it.
fn plain_word(cell: &str) -> &str {
    cell.trim_matches(|character: char| matches!(character, '*' | '_' | '`') || is_blank(character))
}

fn is_slash_list(text: &str) -> bool {
    text.contains('/') && text.split('/').all(|part| !trim(part).is_empty())
}

/// Returns the level of a heading and what follows it; the white space between may be missing before a letter.
fn heading(content: &str) -> Option<(usize, &str)> {
    let level = content.bytes().take(7).take_while(|byte| *byte == b'#').count();
    let title = &content[level..];
    let starts_title = title.chars().next().is_none_or(|first| is_blank(first) || first.is_alphabetic());
    ((1..=6).contains(&level) && starts_title).then_some((level, title))
}

/// Returns the line of the first Findings heading that has content before the next heading of its level or a higher one.
fn heading_with_content(text: &str) -> Option<u64> {
    let mut section: Option<(usize, u64)> = None;
    // A text without the mark of a heading needs no look at each of its lines.
    memchr(b'#', text.as_bytes())?;
    for line in lines(text) {
        if line.text.is_empty() || (section.is_none() && line.text.len() < "#findings".len()) {
            continue;
        }
        let content = trim(line.text);
        if let Some((level, title)) = heading(content) {
            if section.is_some_and(|(outer, _)| level <= outer) {
                section = None;
            }
            if section.is_none() && is_findings(trim_start(title)) {
                section = Some((level, line.number));
            }
        } else if let (false, Some((_, heading))) = (content.is_empty(), section) {
            return Some(heading);
        }
    }
    None
}

fn is_findings(title: &str) -> bool {
    let word = "findings".len();
    let next = title.get(word..).and_then(|rest| rest.chars().next());
    title.get(..word).is_some_and(|start| start.eq_ignore_ascii_case("findings"))
        && next.is_none_or(|next| !next.is_alphanumeric() && next != '_')
}

/// Removes comments but for their line ends; one that does not end is kept.
fn without_comments(text: &str) -> Cow<'_, str> {
    let (opener, closer) = (memmem::Finder::new(b"<!--"), memmem::Finder::new(b"-->"));
    let (bytes, mut plain, mut position) = (text.as_bytes(), String::new(), 0);
    while let Some(start) = opener.find(&bytes[position..]).map(|at| position + at) {
        let Some(end) = closer.find(&bytes[start + 4..]).map(|at| start + 4 + at + 3) else { break };
        plain.push_str(&text[position..start]);
        plain.extend(text[start..end].chars().filter(|character| matches!(character, '\n' | '\r')));
        position = end;
    }
    if position == 0 {
        return Cow::Borrowed(text);
    }
    plain.push_str(&text[position..]);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    const HEADER: &str = "| Severity | Category | Description | Suggested Fix | Decision |\n|---|---|---|---|---|\n";

    fn faults(text: &str) -> Vec<(u64, Fault)> {
        read(text).problems.iter().map(|problem| (problem.line, problem.fault)).collect()
    }

    #[test]
    fn an_open_finding_never_passes() {
        for row in [
            "| high | tests | x | y | open |",
            "| **High** | tests | x | y | open |",
            "| `critical` | tests | x | y | |",
            "| ***_HIGH_*** | tests | x | y | rejected |",
            "high | tests | x | y | open",
            "| high | tests | x | y | accepted by nobody |",
            "| high | tests | x \\| accepted | y | open |",
            "| high | tests | x | y \\| accepted |",
            "| high | tests | x | y | accepted \\\\| open |",
            "| high |",
            "high",
            "> | high | tests | x | y | open |",
            "- | high | tests | x | y | open |",
            "\u{feff}| high\u{a0}| tests | x | y | open |",
            "A word below the table.\n| high | tests | x | y | open |",
            "#abc | x | y | z | open\n| high | tests | x | y | open |",
            "\u{a0}\n| high | tests | x | y | open |",
            " \u{feff}\n| high | tests | x | y | open |",
            "\u{c}\n| high | tests | x | y | open |",
            "> \u{a0}\n| high | tests | x | y | open |",
            "#\u{a0}x\n| high | tests | x | y | open |",
            "\u{a0}# x\n| high | tests | x | y | open |",
        ] {
            assert!(!faults(&format!("{HEADER}{row}\n")).is_empty(), "{row}");
            assert!(!faults(&format!("{HEADER}{row}\n").replace('\n', "\r")).is_empty(), "{row}");
        }
    }

    #[test]
    fn a_resolved_finding_is_not_blocked_by_its_form() {
        for row in [
            "| high | tests | x | y | accepted |",
            "| **High** | tests | x | y | `Defer` |",
            "| _critical_ | tests | a \\| b | y | **ACCEPTED** |",
            "high | tests | x | y | accepted",
            "  | high | tests | x | y | accepted",
            "|high|tests|x|y|accepted|",
            "| low | tests | x | y | |",
            "| medium | tests | x | y | whatever |",
            "| | tests | x | y | open |",
            "| | high | tests | x | accepted |",
            "| :-- | :-: | --: | - | --- |",
            "| low/medium | a | b | c | accepted/defer |",
            "| low / medium | a | b | c | |",
            "Text below the table.",
            "## Next\n| high | tests | x | y | open |",
            "\n| high | tests | x | y | open |",
        ] {
            assert_eq!(faults(&format!("{HEADER}{row}\n")), [], "{row}");
            assert_eq!(faults(&format!("{HEADER}{row}\r\n").replace("|\n", "|\r\n")), [], "{row}");
        }
    }

    #[test]
    fn what_can_not_be_read_blocks() {
        for (row, fault) in [
            ("| blocker | tests | x | y | accepted |", Fault::UnknownSeverity),
            ("| tests | x | y | accepted |", Fault::UnknownSeverity),
            ("| ** | tests | x | y | accepted |", Fault::UnknownSeverity),
            ("| <b>high</b> | tests | x | y | accepted |", Fault::UnknownSeverity),
            ("| high/critical | tests | x | y | open |", Fault::UnknownSeverity),
            ("| / | tests | x | y | |", Fault::UnknownSeverity),
            ("| | **high** | tests | x | open |", Fault::UnknownSeverity),
            ("|| high | tests | x | open", Fault::UnknownSeverity),
            ("| high | a | b | tests | x | accepted |", Fault::TooManyCells),
            ("| low | a | b | c | d | |", Fault::TooManyCells),
            ("| high | x `|` | y | z | accepted |", Fault::TooManyCells),
        ] {
            assert_eq!(faults(&format!("{HEADER}{row}\n")), [(3, fault)], "{row}");
        }
    }

    #[test]
    fn every_table_counts_wherever_it_stands() {
        let open = "| high | tests | x | y | open |";
        for (text, lines) in [
            (format!("{HEADER}\n{HEADER}{open}"), vec![6]),
            (format!("{HEADER}\nSeverity | Decision\nhigh | open"), vec![5]),
            (format!("{HEADER}Severity | Decision\nhigh | open"), vec![4]),
            (format!("<!--\n{HEADER}{open}\n-->"), vec![4]),
            (format!("> {}> {open}", HEADER.replace('\n', "\n> ").trim_end_matches("> ")), vec![3]),
            ("**Severity** | `decision`\n:-- | --\nhigh | open".to_owned(), vec![3]),
            (format!("```\n{HEADER}{open}"), vec![4]),
            (format!("```\n{HEADER}{open}\n```\n\n{HEADER}{open}"), vec![9]),
            (format!("- ```\n  x\n  ```\n{HEADER}{open}\n```\nx\n```"), vec![6]),
            (format!("<!--\n```\n-->\n{HEADER}{open}\n```\nx\n```"), vec![6]),
            (format!("- step:\n  ```\n  cargo test\n\n{HEADER}{open}\n\n```\nlog\n```\n"), vec![7]),
            (format!("1. x\n   ```\n   code\n\n{HEADER}{open}\n```\nx\n```\n"), vec![7]),
            (format!("<div>\n```\n</div>\n\n{HEADER}{open}\n```\nx\n```\n"), vec![7]),
            (format!("<pre>\n```\n</pre>\n\n{HEADER}{open}\n```\nx\n```\n"), vec![7]),
            (format!("<details>\n```\n</details>\n\n{HEADER}{open}\n```\nx\n```\n"), vec![7]),
            (format!("> ```\n\n{HEADER}{open}\n\n```\nx\n```\n"), vec![5]),
        ] {
            assert_eq!(faults(&text).iter().map(|(line, _)| *line).collect::<Vec<_>>(), lines, "{text}");
        }
        let quoted = format!("```\n{HEADER}{open}\n```");
        for (mark, others) in
            [("", ""), ("- ", "  "), ("10. ", "    "), ("> ", "> "), ("> - ", ">   "), ("- x\n\n  ", "  ")]
        {
            assert_eq!(faults(&format!("{mark}{}", quoted.replace('\n', &format!("\n{others}")))), [], "{mark}");
        }
        assert_eq!(faults(&format!("~~~\n{HEADER}{open}\n~~~")), []);
        assert_eq!(faults(&format!("```md\n{HEADER}\n{open}\n```")), []);
    }

    #[test]
    fn every_column_of_a_name_counts() {
        let header = "| Severity | Decision | Severity | Decision |\n|---|---|---|---|\n";
        for row in [
            "| high | accepted | low | open |",
            "| high | open | low | accepted |",
            "| low | open | high | accepted |",
            "| | accepted | critical | |",
            "| high | accepted |",
            "| high | accepted | low",
        ] {
            assert_eq!(faults(&format!("{header}{row}")), [(3, Fault::Open)], "{row}");
        }
        assert_eq!(faults(&format!("{header}| low | accepted | worse | accepted |")), [(3, Fault::UnknownSeverity)]);
        for row in ["| high | accepted | low | `defer` |", "| low | open | medium | |", "| | | | |"] {
            assert_eq!(faults(&format!("{header}{row}")), [], "{row}");
        }
    }

    #[test]
    fn a_problem_says_what_it_is_about() {
        let [problem] = &read(&format!("{HEADER}| **High** | a | data `loss` | b | wontfix |")).problems[..] else {
            panic!("one problem")
        };
        assert_eq!(problem.severity, "**High**");
        assert_eq!((problem.description.as_str(), problem.decision.as_str()), ("data `loss`", "wontfix"));
        let many = format!("{HEADER}{}", "| high |\n".repeat(10_000));
        let findings = read(&many);
        assert_eq!((findings.problems.len(), findings.omitted), (MAX_PROBLEMS, 10_000 - MAX_PROBLEMS as u64));
    }

    #[test]
    fn the_template_row_counts_until_there_is_a_finding() {
        let template = format!("| {} |", TEMPLATE.join(" | "));
        assert_eq!(read(&format!("{HEADER}{template}\n")).placeholder, Some(3));
        assert_eq!(read(&format!("{HEADER}{template}\n\n{HEADER}| low | a | b | c | d |")).placeholder, None);
        assert_eq!(read(&format!("{HEADER}{}\n", template.replace("fix", "mend"))).placeholder, None);
    }

    #[test]
    fn findings_outside_tables_are_noticed() {
        for (text, line) in [
            ("## Findings\n- high: x", Some(1)),
            ("# Review\n\n##findings (all)\n\n### Round 1\n- x\n", Some(3)),
            ("## Findings\n\n## Findings\nx", Some(3)),
            ("## Findings\n<!-- a -->\n<!-- b\n", Some(1)),
            ("## Findings\n#1 is open", Some(1)),
            ("## Findings\n<!--\n| Severity | Decision |\n-->\n- x", Some(1)),
            ("## Findings\n```\n| Severity | Decision |\n```\n- x", Some(1)),
            ("## Findings\n\n<!-- a\nb -->\n", None),
            ("## Findings\n\n## Other\nx", None),
            ("## Findings\n# Other\nx", None),
            ("## Findingsfoo\nx", None),
            ("## Findings_\nx", None),
            ("####### Findings\nx", None),
            ("## Findings\n- x\n\n| Severity | Decision |", None),
        ] {
            assert_eq!(read(text).unreadable_heading, line, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_can_be_read(text in "(\\PC|[-|`~#<>!\\\\\\r\\n /*]|high|Severity|Decision|Findings){0,80}") {
            black_box((read(&text), read(&format!("{HEADER}{text}"))));
        }

        #[test]
        fn an_open_row_blocks_after_any_cells(cells in proptest::collection::vec("[a-z`*\\\\ ]{0,6}", 0..6)) {
            let row = format!("| high | {} | open |", cells.join(" | "));
            let text = format!("| Severity | A | Decision |\n|-|-|-|\n{row}\n");
            proptest::prop_assert!(!faults(&text).is_empty());
        }
    }
}
