//! Flags that are nowhere written out, because the argument parser is given them in pieces.
//!
//! Only forms that mean a flag and nothing else are known. A field of clap's derive is one when its attribute, on the
//! lines before it, says `long` or `short` without a name; a key of an object is one when the object is given to Node's
//! `parseArgs` right there.

use std::io::Read;
use std::path::Path;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};

use super::file::{self, Content, FileSearch, Judging, Outcome};
use super::hits::{FileHits, Hits, Role, Standing};
use super::pattern::Pieces;
use super::scan::Scan;

/// Largest file whose attributes are read, in bytes.
const MAX_BYTES: u64 = 4 << 20;

/// Looks for a flag's definition in pieces, in the files that git would not ignore.
pub(super) fn find(scan: &Scan, value: &str) -> Option<Hits> {
    let (dashes, name) = split(value)?;
    // One look finds both the certain forms and the fields that may be flags.
    let field = (dashes == 2).then(|| name.replace('-', "_"));
    let wide = field.as_ref().map(|field| format!(r#"\b{field}\s*:|["']{name}["']\s*:"#));
    let wide = pieces(dashes, name, wide)?;
    let defined = scan.another();
    defined.look(&wide, Judging::None);
    if defined.hits().count == 0 {
        return None;
    }
    let (certain, spread) = (pieces(dashes, name, None)?, field.as_deref().and_then(|field| Spread::of(name, field)));
    let (mut hits, mut search) = (Hits::default(), FileSearch::new(&certain, Judging::AllDefine, Content::Text));
    for path in defined.hits().files().map(Path::new) {
        if let (Outcome::Searched(Some(found)), _) = search.search(path, &|| scan.stopped()) {
            hits.add(path, found, Standing::NotIgnored);
        } else if let Some(found) = spread.as_ref().and_then(|spread| spread.find(path)) {
            hits.add(path, found, Standing::NotIgnored);
        }
    }
    (hits.count > 0).then_some(hits)
}

/// A definition over several lines: a field of clap's derive and its attribute, or a call of Node's `parseArgs`.
struct Spread(RegexMatcher);

impl Spread {
    fn of(name: &str, field: &str) -> Option<Self> {
        let derive = format!(
            r"#\[(?:arg|clap|structopt)\((?:[^\]]*[,\s])?long\s*[,)][^\]]*\]\s*(?:(?://[^\n]*|#\[[^\]]*\])\s*)*(?:pub(?:\([^)]*\))?\s+)?{field}\s*:"
        );
        let key =
            if name.contains('-') { format!(r#"["']{name}["']"#) } else { format!(r#"(?:{name}|["']{name}["'])"#) };
        let node = format!(
            r#"\bparseArgs\(\s*\{{[^;]*?\boptions\s*:\s*\{{(?:[^;]*?[\s,{{])?{key}\s*:\s*\{{\s*type\s*:\s*["'](?:boolean|string)["']"#
        );
        let expression = format!("{derive}|{node}");
        RegexMatcherBuilder::new().unicode(false).build(&expression).ok().map(Self)
    }

    fn find(&self, path: &Path) -> Option<FileHits> {
        let (file, size) = file::open(path).ok().filter(|(_, size)| *size <= MAX_BYTES)?;
        let mut text = Vec::new();
        file.take(size).read_to_end(&mut text).ok()?;
        let mut found = FileHits::default();
        let searched = self.0.find_iter(&text, |matched| {
            let start = memchr::memrchr(b'\n', &text[..matched.end()]).map_or(0, |at| at + 1);
            let end = memchr::memchr(b'\n', &text[matched.end()..]).map_or(text.len(), |at| matched.end() + at);
            let number = memchr::memchr_iter(b'\n', &text[..start]).count() as u64 + 1;
            found.add_line(number, &text[start..end], 0, 1, Role::Definition);
            true
        });
        searched.ok().filter(|()| found.count > 0).map(|()| found)
    }
}

/// Splits a plain flag into its number of dashes and its name; nothing when it is none.
fn split(value: &str) -> Option<(usize, &str)> {
    let value = value.trim();
    let name = value.trim_start_matches('-');
    let plain = name.chars().all(|character| character == '-' || character.is_ascii_alphanumeric());
    (!name.is_empty() && plain && !name.ends_with('-')).then_some((value.len() - name.len(), name))
}

/// Returns a matcher of the one-line forms in which argument parsers define this flag without writing it out, and of
/// `more`.
fn pieces(dashes: usize, name: &str, more: Option<String>) -> Option<Pieces> {
    let (field, positive) = (name.replace('-', "_"), name.strip_prefix("no-").unwrap_or(name));
    let (single, double) = (format!("'{name}'"), format!("\"{name}\""));
    let needles = if dashes == 1 { [&*single, &*double] } else { [positive, &*field] };
    // Go's standard library, whose flags take one dash or two.
    let go = format!(
        r#"(?:\bflag|\b[Ff]lag[Ss]et|\bfs)\.(?:Bool|String|Int|Int64|Uint|Uint64|Float64|Duration|Func|BoolFunc|Text|Var)(?:Var)?\((?:[^",]*,)?\s*"{name}""#
    );
    let mut pieces = match (dashes, name.len()) {
        (1, 1) => vec![
            go,
            // Rust: clap, argh, structopt.
            format!(r"\bshort\s*(?:=|\()\s*'{name}'"),
            // Go: pflag's methods that end in P take the long name, then the letter.
            format!(r#"\.(?:[A-Z]\w*)P\([^"]*"[^"]+"\s*,\s*"{name}""#),
            // C: the last field of a `struct option`.
            format!(r"\b(?:no|required|optional)_argument\s*,[^,]*,\s*'{name}'"),
        ],
        (1, _) => vec![go],
        (2, _) => {
            let mut pieces = vec![
                // Rust: clap, argh, structopt, as attribute and as builder.
                format!(r#"\blong\s*(?:=|\()\s*"{name}""#),
                format!(r"#\[(?:arg|clap|structopt)\((?:[^=]*,)?\s*long\s*[,)].*\]\s*(?:pub\s+)?{field}\s*:"),
                go,
                // Go: pflag. A variable or a letter beside the name tells it from a log's field, whoever is called.
                format!(
                    r#"[Ff]lags\(\)\.(?:Bool|Count|Duration|Float|Func|Int|IP|String|Uint|Var)\w*\((?:[^",]*,)?\s*"{name}"\s*,"#
                ),
                format!(r#"\.(?:[A-Z]\w*)?VarP?\(\s*[\w&.*\[\]()]+\s*,\s*"{name}"\s*,"#),
                format!(
                    r#"\.(?:Bool|Count|Duration|Float|Int|IP|String|Uint)\w*P\((?:[^",]*,)?\s*"{name}"\s*,\s*"\w?""#
                ),
                // JavaScript: yargs.
                format!(r#"\.option\(\s*["']{name}["']\s*,\s*\{{"#),
                // C: `struct option` of getopt_long.
                format!(r#"\{{\s*"{name}"\s*,\s*(?:no|required|optional)_argument\b"#),
                // Ruby: OptionParser, a flag and its negation in one.
                format!(r#"--\[no-\]{}["'\s]"#, positive),
            ];
            if positive != name {
                // Python: argparse derives the negation.
                pieces.push(format!(r#"["']--{positive}["'].*\bBooleanOptionalAction\b"#));
            }
            pieces
        }
        _ => return None,
    };
    pieces.extend(more);
    let mut builder = RegexMatcherBuilder::new();
    // All of it is ASCII, and without Unicode's tables the expression is built sooner.
    builder.unicode(false);
    Some(Pieces::new(&needles, builder, pieces.join("|")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_line(value: &str) -> Option<Pieces> {
        let (dashes, name) = split(value)?;
        pieces(dashes, name, None)
    }

    #[test]
    fn flags_are_found_in_pieces() {
        for (flag, line, found) in [
            ("--force", r#"    #[arg(short, long = "force")]"#, true),
            ("--force", r#"Arg::new("f").long("force")"#, true),
            ("--force", r#"long = "forced""#, false),
            ("--force", r#"prolong = "force""#, false),
            ("--dry-run", "#[arg(short, long)] pub dry_run: bool,", true),
            ("--dry-run", "#[arg(short)] pub dry_run: bool,", false),
            ("--force", r#"force := flag.Bool("force", false, "do it")"#, true),
            ("--force", r#"cmd.Flags().BoolVarP(&force, "force", "f", false, "")"#, true),
            ("-f", r#"cmd.Flags().BoolVarP(&force, "force", "f", false, "")"#, true),
            ("--force", r#"  {"force", no_argument, 0, 'f'},"#, true),
            ("--force", r#"root.PersistentFlags().BoolP("force", "f", false, "")"#, true),
            ("--force", r#"f.StringVarP(&o.force, "force", "f", "", "")"#, true),
            ("-f", r#"f.StringVarP(&o.force, "force", "f", "", "")"#, true),
            ("--force", r#"options.StringVar(&x, "force", "", "")"#, true),
            ("--force", r#"zap.String("force", x)"#, false),
            ("--force", r#"x.Map("force", "f", y)"#, false),
            ("--chatty", r#"c := flag.Bool("chatty", false, "")"#, true),
            ("-chatty", r#"c := flag.Bool("chatty", false, "")"#, true),
            ("-c", r#"flag.BoolVar(&c, "c", false, "")"#, true),
            ("-chatty", r#"cmd.Flags().Bool("chatty", false, "")"#, false),
            ("--force-y", r#"yargs.option("force-y", { type: "boolean" })"#, true),
            ("--header", r#"spark.read.option("header", "true")"#, false),
            ("-f", r#"  {"force", no_argument, 0, 'f'},"#, true),
            ("-f", "#[arg(short = 'f')]", true),
            ("-g", "#[arg(short = 'f')]", false),
            ("--color", r#"opts.on("--[no-]color")"#, true),
            ("--no-color", r#"opts.on("--[no-]color")"#, true),
            ("--no-color", r#"p.add_argument("--color", action=argparse.BooleanOptionalAction)"#, true),
            ("--force", r#"map.insert("force", 1)"#, false),
        ] {
            let matched = one_line(flag).unwrap().is_match(line.as_bytes()).unwrap();
            assert_eq!(matched, found, "{flag} in {line}");
        }
        for value in ["--", "-", "force", "--a=b", "---x", "--a.*"] {
            assert!(one_line(value).is_none(), "{value}");
        }
    }
}
