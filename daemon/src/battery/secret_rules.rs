//! The rules by which secrets are told from other text, and the scanner that applies them to a file.
//!
//! One automaton finds the words that a rule's secrets hold; only then is the rule's pattern tried, on that line. What
//! was found is named by rule and line; a secret itself is never returned, kept or shown.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickBuilder, MatchKind};
use regex::bytes::Regex;

/// A rule: words of which every secret of its kind holds one, in lower case, and a pattern; the group `secret`, else the
/// whole match, is what is judged.
struct Rule {
    id: &'static str,
    words: &'static [&'static str],
    pattern: &'static str,
    /// Least entropy of the secret, in bits a character.
    least_entropy: f64,
}

const fn rule(id: &'static str, words: &'static [&'static str], pattern: &'static str) -> Rule {
    Rule { id, words, pattern, least_entropy: 2.5 }
}

const RULES: &[Rule] = &[
    rule(
        "private-key",
        &["private key-----", "private key block-----"],
        r#"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]|["'+,|]|(?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]*)*(?P<secret>[A-Za-z0-9+/=]{32,})"#,
    ),
    rule("age-secret-key", &["age-secret-key-1"], r"AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    rule("aws-access-key-id", &["akia", "asia", "abia", "acca"], r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    Rule {
        id: "aws-secret-access-key",
        words: &["aws"],
        pattern: r#"(?i:aws)[A-Za-z0-9_.-]{0,30}["']?\s*(?:=>|:=|=|:)\s*["']?(?P<secret>[A-Za-z0-9/+]{40})(?:["'\s,;]|$)"#,
        least_entropy: 4.0,
    },
    rule("github-token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"\bgh[pousr]_[A-Za-z0-9]{36,255}\b"),
    rule("github-fine-grained-token", &["github_pat_"], r"\bgithub_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}\b"),
    rule("gitlab-token", &["glpat-", "gldt-", "glrt-", "glptt-"], r"\bgl(?:pat|dt|rt|ptt)-[A-Za-z0-9_.-]{20,}"),
    rule(
        "slack-token",
        &["xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"],
        r"\b(?:xox[abeprs]|xapp)-[0-9A-Za-z-]{20,}",
    ),
    rule(
        "slack-webhook",
        &["hooks.slack.com"],
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9_/]{40,})",
    ),
    rule("stripe-key", &["sk_live_", "rk_live_"], r"\b[sr]k_live_[A-Za-z0-9]{16,}"),
    rule("stripe-webhook-secret", &["whsec_"], r"\bwhsec_[A-Za-z0-9+/=]{24,}"),
    rule("google-api-key", &["aiza"], r"\bAIza[A-Za-z0-9_-]{35}"),
    rule("google-oauth-secret", &["gocspx-"], r"\bGOCSPX-[A-Za-z0-9_-]{24,}"),
    rule("google-access-token", &["ya29."], r"\bya29\.[A-Za-z0-9_-]{30,}"),
    rule("openai-key", &["sk-proj-", "sk-svcacct-", "sk-admin-"], r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{32,}"),
    rule("openai-legacy-key", &["t3blbkfj"], r"\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    rule("anthropic-key", &["sk-ant-"], r"\bsk-ant-[a-z0-9]+-[A-Za-z0-9_-]{40,}"),
    rule("hugging-face-token", &["hf_"], r"\bhf_[A-Za-z0-9]{34,}\b"),
    rule("npm-token", &["npm_"], r"\bnpm_[A-Za-z0-9]{36}\b"),
    rule("npm-auth-token", &["_authtoken"], r"_authToken\s*=\s*(?P<secret>[A-Za-z0-9+/=_-]{20,})"),
    rule("pypi-token", &["pypi-ageichlwas5vcmc"], r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    rule("crates-io-token", &["cio"], r"\bcio[A-Za-z0-9]{32}\b"),
    rule("rubygems-key", &["rubygems_"], r"\brubygems_[0-9a-f]{48}\b"),
    rule("docker-token", &["dckr_pat_"], r"\bdckr_pat_[A-Za-z0-9_-]{27,}"),
    rule("sendgrid-key", &["sg."], r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    rule("mailgun-key", &["key-"], r"\bkey-[0-9a-f]{32}\b"),
    rule("twilio-key", &["twilio"], r"(?i:twilio)[^\r\n]{0,60}\b(?P<secret>SK[0-9a-f]{32}|[0-9a-f]{32})\b"),
    rule("json-web-token", &["eyj"], r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}"),
    rule("azure-storage-key", &["accountkey="], r"AccountKey=(?P<secret>[A-Za-z0-9+/]{86}==)"),
    rule("azure-client-secret", &["q~"], r"\b[A-Za-z0-9_.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}"),
    rule("digitalocean-token", &["dop_v1_", "doo_v1_", "dor_v1_"], r"\bdo[opr]_v1_[0-9a-f]{64}\b"),
    rule("vault-token", &["hvs."], r"\bhvs\.[A-Za-z0-9_-]{24,}"),
    rule("terraform-cloud-token", &[".atlasv1."], r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    rule("shopify-token", &["shpat_", "shpss_", "shpca_", "shppa_"], r"\bshp(?:at|ss|ca|pa)_[0-9a-fA-F]{32}\b"),
    rule("databricks-token", &["dapi"], r"\bdapi[0-9a-f]{32}\b"),
    rule("grafana-token", &["glsa_"], r"\bglsa_[A-Za-z0-9]{32}_[0-9a-fA-F]{8}\b"),
    rule("postman-key", &["pmak-"], r"\bPMAK-[0-9a-f]{24}-[0-9a-f]{34}\b"),
    rule("new-relic-key", &["nrak-"], r"\bNRAK-[A-Z0-9]{27}\b"),
    rule("linear-key", &["lin_api_"], r"\blin_api_[A-Za-z0-9]{40}\b"),
    rule("sentry-token", &["sntrys_"], r"\bsntrys_[A-Za-z0-9+/=_-]{60,}"),
    rule("square-token", &["sq0atp-", "sq0csp-"], r"\bsq0(?:atp|csp)-[A-Za-z0-9_-]{22,}"),
    rule("telegram-bot-token", &[":aa"], r"\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    rule(
        "discord-webhook",
        &["discord.com/api/webhooks/", "discordapp.com/api/webhooks/"],
        r"/api/webhooks/[0-9]{17,20}/(?P<secret>[A-Za-z0-9_-]{60,})",
    ),
    Rule {
        id: "password-in-url",
        words: &["://"],
        pattern: r#"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@"'`<>{}$]{1,64}:(?P<secret>[^\s:/@"'`<>{}$]{8,100})@[A-Za-z0-9._-]+"#,
        least_entropy: 3.0,
    },
];

/// The rule whose secrets go on over several lines.
const KEY_RULE: usize = 0;

/// Values that are given to names that speak of secrets, as an assignment, an XML element or a header; judged by how
/// random the value looks.
const ASSIGNMENT: &str = concat!(
    r#"(?i)(?:\bauthorization["'\]]{0,2}\s{0,8}(?:=>|:=|=|:|,)?\s{0,8}["'`]?(?:bearer|token)\s{1,8}(?P<header>[A-Z0-9_.~+/=-]{20,200})"#,
    r#"|(?P<name>[A-Z0-9_.-]{0,40}(?:(?:secret|token|passw(?:or)?d|passwd|passphrase|api[_-]?key|access[_-]?key|private[_-]?key|auth[_-]?key|encryption[_-]?key|signing[_-]?key|credential)[A-Z0-9_-]{0,40}|[_-]pass|pwd))"#,
    r#"(?:>\s{0,8}(?P<element>[^<>\s]{8,200})\s{0,8}</"#,
    r#"|["'\]]{0,2}\s*(?:=>|:=|==?|:)\s*(?:[bru]{0,2}["'`](?P<quoted>[^"'`\s\\]{12,200})["'`]|(?P<bare>[A-Z0-9_+/=~-]{16,200})(?:[\s,;]|$))))"#,
);

const ASSIGNMENT_ID: &str = "high-entropy-assignment";

const ASSIGNMENT_WORDS: &[&str] = &[
    "secret",
    "token",
    "passw",
    "passphrase",
    "_pass",
    "-pass",
    "pwd",
    "authorization",
    "apikey",
    "api_key",
    "api-key",
    "accesskey",
    "access_key",
    "access-key",
    "privatekey",
    "private_key",
    "private-key",
    "authkey",
    "auth_key",
    "auth-key",
    "encryptionkey",
    "encryption_key",
    "signingkey",
    "signing_key",
    "credential",
];

/// Least entropy of an assigned value, in bits a character.
const LEAST_ASSIGNED_ENTROPY: f64 = 3.4;

/// Words in a name that say that its value is not the secret itself.
const HARMLESS_NAMES: &[&str] = &[
    "hash",
    "sha256",
    "digest",
    "checksum",
    "fingerprint",
    "public",
    "url",
    "uri",
    "path",
    "file",
    "expir",
    "header",
    "pattern",
    "regex",
    "prefix",
    "kind",
    "type",
    "class",
    "name",
    "label",
    "field",
    "param",
    "tokenizer",
    "endpoint",
    "next",
    "page",
    "continu",
];

/// What stands where a secret would be in documentation, templates and tests.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "changeme",
    "change-me",
    "change_me",
    "placeholder",
    "your",
    "xxxx",
    "dummy",
    "fake",
    "redacted",
    "sample",
    "todo",
    "replace",
    "insert",
    "****",
    "...",
    "a-z",
    "0-9]",
    "----",
    "${",
    "{{",
    "%(",
    "<%",
    "$(",
    "process.env",
    "os.environ",
    "getenv",
    "01234567",
    "12345678",
    "abcdefgh",
    "test-",
    "test_",
    "mock",
    "not-a-",
    "notreal",
    "lorem",
    "deadbeef",
    "secrets.",
    "localhost",
    "password",
    "00000000",
];

/// A comment that says that a line was reviewed; a longer word says something else.
const PRAGMA: &str = "pragma: allowlist secret";

/// Longest line that is looked at as a whole, and how much around a word of a longer one, in bytes.
const MAX_LINE: usize = 2048;
const BEFORE: usize = 160;
const AFTER: usize = 768;
/// How far from a rule's word its secret surely shows, in bytes.
const LONGEST: usize = 400;

/// What looks like a secret.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// The line, counted from 1.
    pub line: u64,
    /// The rule that found it.
    pub rule: &'static str,
}

struct Scanner {
    automaton: AhoCorasick,
    /// For each word of the automaton, the rule it belongs to; one past the last is the assignment.
    owners: Vec<usize>,
    patterns: Vec<Regex>,
    assignment: Regex,
}

static SCANNER: LazyLock<Scanner> = LazyLock::new(Scanner::new);

/// Finds what looks like secrets in the bytes of a file; in order of lines, each rule once a line.
#[must_use]
pub fn scan(bytes: &[u8]) -> Vec<Hit> {
    SCANNER.scan(bytes)
}

impl Scanner {
    #[expect(clippy::expect_used, reason = "the table above is constant, and a test compiles it")]
    fn new() -> Self {
        let words =
            RULES.iter().enumerate().flat_map(|(index, rule)| rule.words.iter().map(move |word| (index, *word)));
        let assigned = ASSIGNMENT_WORDS.iter().map(|word| (RULES.len(), *word));
        let (owners, words): (Vec<_>, Vec<_>) = words.chain(assigned).unzip();
        let automaton =
            AhoCorasickBuilder::new().ascii_case_insensitive(true).match_kind(MatchKind::Standard).build(words);
        // Without Unicode classes the patterns stay small, and bytes that are no UTF-8 are no obstacle.
        let compile = |pattern: &str| Regex::new(&format!("(?-u){pattern}")).expect("the pattern of a rule compiles");
        Self {
            automaton: automaton.expect("the words of the rules make an automaton"),
            owners,
            patterns: RULES.iter().map(|rule| compile(rule.pattern)).collect(),
            assignment: compile(ASSIGNMENT),
        }
    }

    fn scan(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut hits = Vec::new();
        // Where each rule has looked already, so that a line with many words of a rule is looked at once.
        let mut looked = vec![0; RULES.len() + 1];
        let (mut counted, mut line) = (0, 1);
        for found in self.automaton.find_overlapping_iter(bytes) {
            let owner = self.owners[found.pattern().as_usize()];
            if found.start() < looked[owner] {
                continue;
            }
            let window = window(bytes, found.start());
            let end = if owner == KEY_RULE { (found.start() + 2 * AFTER).min(bytes.len()) } else { window.end };
            // Of a part of a line, the last bytes may cut a secret short: a word there is looked at again.
            let looked_at = if window.whole { window.end } else { window.end.saturating_sub(LONGEST) };
            looked[owner] = if owner == KEY_RULE { found.end() } else { looked_at.max(found.end()) };
            let text = &bytes[window.start..end];
            let holds = match owner {
                _ if owner == RULES.len() => self.assigns(text),
                // The key must be this header's own, and no later one's.
                KEY_RULE => self.matches(owner, text, found.start() - window.start),
                owner => self.matches(owner, text, text.len()),
            };
            if holds && !is_reviewed(&bytes[window.start..window.end]) {
                line += memchr::memchr_iter(b'\n', &bytes[counted..found.start()]).count() as u64;
                counted = found.start();
                let rule = RULES.get(owner).map_or(ASSIGNMENT_ID, |rule| rule.id);
                hits.push(Hit { line, rule });
            }
        }
        hits.sort();
        hits.dedup();
        hits
    }

    /// Tries a rule on a text; a match must begin before `latest`.
    fn matches(&self, index: usize, text: &[u8], latest: usize) -> bool {
        self.patterns[index].captures_iter(text).any(|found| {
            if found.get(0).is_none_or(|whole| whole.start() > latest) {
                return false;
            }
            let secret = found.name("secret").or_else(|| found.get(0)).map_or(&b""[..], |it| it.as_bytes());
            !is_placeholder(secret) && entropy(secret) >= RULES[index].least_entropy
        })
    }

    fn assigns(&self, text: &[u8]) -> bool {
        self.assignment.captures_iter(text).any(|found| {
            let name = found.name("name").map_or(&b""[..], |it| it.as_bytes()).to_ascii_lowercase();
            let harmless = HARMLESS_NAMES.iter().any(|word| memchr::memmem::find(&name, word.as_bytes()).is_some());
            let clear = ["header", "element", "quoted"].iter().find_map(|it| found.name(it)).map(|it| it.as_bytes());
            let bare = found.name("bare").map(|it| it.as_bytes()).filter(|value| is_mixed(value));
            !harmless && clear.or(bare).is_some_and(looks_random)
        })
    }
}

struct Window {
    start: usize,
    end: usize,
    /// Whether it is a line, and not a part of one.
    whole: bool,
}

fn window(bytes: &[u8], at: usize) -> Window {
    let back = at.saturating_sub(MAX_LINE);
    let start = memchr::memrchr(b'\n', &bytes[back..at]).map(|newline| back + newline + 1);
    let forth = (at + MAX_LINE).min(bytes.len());
    let end = memchr::memchr(b'\n', &bytes[at..forth]).map(|newline| at + newline);
    let start = start.or((back == 0).then_some(0));
    let end = end.or((forth == bytes.len()).then_some(forth));
    match (start, end) {
        (Some(start), Some(end)) => Window { start, end, whole: true },
        (start, end) => {
            let start = start.unwrap_or(0).max(at.saturating_sub(BEFORE));
            let end = end.unwrap_or(bytes.len()).min(at + AFTER);
            Window { start, end, whole: false }
        }
    }
}

fn is_reviewed(line: &[u8]) -> bool {
    let line = line.to_ascii_lowercase();
    let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    memchr::memmem::find_iter(&line, PRAGMA).any(|start| {
        let before = start.checked_sub(1).and_then(|before| line.get(before));
        !before.is_some_and(goes_on) && !line.get(start + PRAGMA.len()).is_some_and(goes_on)
    })
}

fn is_placeholder(secret: &[u8]) -> bool {
    let lower = secret.to_ascii_lowercase();
    PLACEHOLDERS.iter().any(|word| memchr::memmem::find(&lower, word.as_bytes()).is_some())
}

/// A value that nobody would type as a word: letters and digits, and far from any pattern.
fn looks_random(value: &[u8]) -> bool {
    let holds = |is: fn(&u8) -> bool| value.iter().any(is);
    let lettered = holds(u8::is_ascii_alphabetic) && holds(u8::is_ascii_digit);
    lettered
        && !is_placeholder(value)
        && !is_address(value)
        && !is_uuid(value)
        && entropy(value) >= LEAST_ASSIGNED_ENTROPY
}

/// Without quotes, only what no identifier looks like: capitals, small letters and digits, or long hexadecimal.
fn is_mixed(value: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| value.iter().filter(|byte| is(byte)).count();
    let hexadecimal = value.len() >= 32 && value.iter().all(u8::is_ascii_hexdigit);
    let mixed = count(u8::is_ascii_uppercase) > 1 && count(u8::is_ascii_lowercase) > 1 && count(u8::is_ascii_digit) > 1;
    hexadecimal || mixed
}

/// Paths, URLs and dotted names.
fn is_address(value: &[u8]) -> bool {
    let starts =
        [&b"/"[..], b"./", b"../", b"~/", b"http", b"arn:", b"$", b"@"].iter().any(|start| value.starts_with(start));
    let parts: Vec<_> = value.split(|byte| matches!(byte, b'.' | b'/' | b'-' | b'_' | b':')).collect();
    let wordy = parts.len() >= 3 && parts.iter().all(|part| part.len() <= 12 && is_word(part));
    starts || wordy
}

/// A word, perhaps with a number at its end.
fn is_word(part: &[u8]) -> bool {
    let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let digits = part[letters..].iter().filter(|byte| byte.is_ascii_digit()).count();
    letters + digits == part.len() && digits <= 2
}

fn is_uuid(value: &[u8]) -> bool {
    let parts: Vec<_> = value.split(|byte| *byte == b'-').collect();
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12]) && parts.concat().iter().all(u8::is_ascii_hexdigit)
}

/// Bits a character, by how often each occurs.
fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text {
        counts[usize::from(*byte)] += 1;
    }
    // A secret is far shorter than what a u32 counts.
    let length = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let bits = |count: &u32| {
        let share = f64::from(*count) / length;
        -share * share.log2()
    };
    counts.iter().filter(|count| **count > 0).map(bits).sum()
}

#[cfg(test)]
#[path = "secret_samples.rs"]
mod samples;
