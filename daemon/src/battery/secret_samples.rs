//! Made-up secrets, and what only looks like them. Tokens are put together when the test runs, so that no scanner takes
//! this file for a leak.

use super::*;

/// A random-looking text of an alphabet, the same at every run.
fn noise(seed: u64, alphabet: &str, length: usize) -> String {
    let alphabet = alphabet.as_bytes();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(alphabet[usize::try_from(state % alphabet.len() as u64).unwrap()])
    };
    (0..length).map(|_| next()).collect()
}

const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const HEX: &str = "0123456789abcdef";
const BASE32: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE64: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn word(seed: u64, length: usize) -> String {
    noise(seed, LETTERS, length)
}

fn hex(seed: u64, length: usize) -> String {
    noise(seed, HEX, length)
}

/// 40 secrets of common kinds.
fn secrets() -> Vec<(&'static str, String)> {
    let key = |kind: &str, seed| {
        let body: Vec<_> = (0..4_u64).map(|line| noise(seed + line, BASE64, 64)).collect();
        format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", body.join("\n"))
    };
    let private = |kind: &str| format!("{kind}PRIVATE KEY");
    vec![
        ("rsa key", key(&private("RSA "), 1)),
        ("pkcs8 key", key(&private(""), 2)),
        ("openssh key", key(&private("OPENSSH "), 3)),
        ("ec key in JSON", format!("{{\"key\": \"{}\"}}", key(&private("EC "), 4).replace('\n', "\\n"))),
        (
            "encrypted rsa key",
            key(&private("RSA "), 5).replacen('\n', "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES,00\n\n", 1),
        ),
        ("pgp key", key(&format!("PGP {} BLOCK", "PRIVATE KEY"), 6)),
        ("age key", format!("{}{}", "AGE-SECRET-KEY-1", noise(7, BASE32, 58))),
        ("aws key id", format!("aws_access_key_id = {}{}", "AKIA", noise(8, BASE32, 16))),
        ("aws session key id", format!("id: {}{}", "ASIA", noise(9, BASE32, 16))),
        ("aws secret", format!("aws_secret_access_key = {}", noise(10, BASE64, 40))),
        ("github classic", format!("token = \"{}{}\"", "ghp_", word(11, 36))),
        ("github oauth", format!("{}{}", "gho_", word(12, 36))),
        ("github server", format!("Authorization: token {}{}", "ghs_", word(13, 36))),
        ("github fine-grained", format!("{}{}_{}", "github_pat_", word(14, 22), word(15, 59))),
        ("gitlab", format!("GITLAB={}{}", "glpat-", word(16, 20))),
        ("slack bot", format!("{}{}-{}", "xoxb-", noise(17, "0123456789", 12), word(18, 24))),
        (
            "slack webhook",
            format!("https://hooks.{}/services/T{}/B{}/{}", "slack.com", word(19, 10), word(20, 10), word(21, 24)),
        ),
        ("stripe", format!("{}{}", "sk_live_", word(22, 24))),
        ("google api", format!("key={}{}", "AIza", word(23, 35))),
        ("google oauth", format!("{}{}", "GOCSPX-", word(24, 28))),
        ("openai project", format!("{}{}", "sk-proj-", word(25, 48))),
        ("anthropic", format!("{}api03-{}", "sk-ant-", word(26, 90))),
        ("hugging face", format!("{}{}", "hf_", word(27, 34))),
        ("npm", format!("//registry.npmjs.org/:_authToken={}{}", "npm_", word(28, 36))),
        ("pypi", format!("password = {}{}", "pypi-AgEIcHlwaS5vcmc", word(29, 70))),
        ("crates.io", format!("token = \"{}{}\"", "cio", word(30, 32))),
        ("docker", format!("{}{}", "dckr_pat_", word(31, 27))),
        ("sendgrid", format!("{}.{}.{}", "SG", word(32, 22), word(33, 43))),
        ("mailgun", format!("api: {}{}", "key-", hex(34, 32))),
        ("jwt", format!("{}{}.{}{}.{}", "eyJ", word(35, 20), "eyJ", word(36, 40), word(37, 43))),
        ("azure storage", format!("AccountName=x;{}={}==", "AccountKey", noise(38, BASE64, 86))),
        ("digitalocean", format!("{}{}", "dop_v1_", hex(39, 64))),
        ("vault", format!("VAULT={}{}", "hvs.", word(40, 90))),
        ("shopify", format!("{}{}", "shpat_", hex(41, 32))),
        ("telegram", format!("bot {}:{}{}", "123987456", "AA", word(42, 33))),
        ("url", format!("postgres://app:{}@db.internal/app", word(43, 20))),
        ("assignment in code", format!("const apiKey = '{}';", word(44, 32))),
        ("assignment in YAML", format!("client_secret: {}", word(45, 40))),
        ("assignment in JSON", format!("\"dbPassword\": \"{}\"", word(46, 18))),
        ("assignment in an env file", format!("SESSION_SECRET={}", hex(47, 64))),
    ]
}

/// 40 texts without a secret.
fn harmless() -> Vec<(&'static str, String)> {
    let header = format!("-----BEGIN {}-----", "PRIVATE KEY");
    vec![
        ("a parser of keys", format!("if line.startswith(\"{header}\"):")),
        ("a public key", format!("-----BEGIN PUBLIC KEY-----\n{}\n", noise(1, BASE64, 64))),
        ("a certificate", format!("-----BEGIN CERTIFICATE-----\n{}\n", noise(2, BASE64, 64))),
        ("aws's own example", format!("{}{}", "AKIA", "IOSFODNN7EXAMPLE")),
        ("aws's own example secret", format!("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCY{}", "EXAMPLEKEY")),
        ("a masked token", format!("token = \"{}{}\"", "ghp_", "x".repeat(36))),
        ("a token's prefix", "if token.starts_with(\"ghp_\") {".to_owned()),
        ("a token from the environment", "const token = process.env.GITHUB_TOKEN;".to_owned()),
        ("a token of a workflow", "token: ${{ secrets.GITHUB_TOKEN }}".to_owned()),
        ("a variable of a shell", "API_TOKEN=\"${API_TOKEN:-}\"".to_owned()),
        ("a call", "password = getpass.getpass(\"Password: \")".to_owned()),
        ("a type", "function login(password: string, token: AuthToken2Factor)".to_owned()),
        ("a placeholder", "api_key = \"YOUR_API_KEY_HERE_123\"".to_owned()),
        ("a changed-me", "SECRET_KEY = \"changeme-please-1234\"".to_owned()),
        ("a test value", "token = \"test-planforge-bot-token-1\"".to_owned()),
        ("a dummy value", "password: \"dummy-password-123456\"".to_owned()),
        ("a path", "private_key_path = \"/etc/ssl/private/server-2024.pem\"".to_owned()),
        ("a path in an odd name", "credentials = \"~/.config/gcloud/credentials2.json\"".to_owned()),
        ("a URL", "token_url = \"https://login.host.org/oauth2/v2.0/token\"".to_owned()),
        ("a URL without password", "https://user@github.com/owner/repo1.git".to_owned()),
        ("a URL with a variable", "postgres://app:${DB_PASSWORD}@db/app".to_owned()),
        ("a URL with the usual word", "postgres://postgres:password@localhost:5432/app".to_owned()),
        ("a commit", format!("commit {}", hex(3, 40))),
        ("an integrity hash", format!("\"integrity\": \"sha512-{}==\"", noise(4, BASE64, 86))),
        ("a checksum of a lock file", format!("checksum = \"{}\"", hex(5, 64))),
        ("a hash of a token", format!("token_hash = \"{}\"", hex(6, 64))),
        ("a UUID", "session_token: \"550e8400-e29b-41d4-a716-446655440000\"".to_owned()),
        ("a sentence", "The token is refreshed every 15 minutes; secrets never leave the vault.".to_owned()),
        ("a message key", "tokenError: \"errors.auth.token-expired.v2\"".to_owned()),
        ("a header's name", format!("TOKEN_HEADER = \"X-{}\"", "Auth-Token-V2-Internal")),
        ("a constant", "const TOKEN_KIND = \"bearer_token_v2_long\"".to_owned()),
        ("a long identifier", "secret = derive_secret_from_master_key_v2(master)".to_owned()),
        ("a bare identifier", "access_key = default_access_key_v1".to_owned()),
        ("zeros", format!("secret_key = \"{}\"", "0".repeat(40))),
        ("a row of digits", "apiKey: \"0123456789abcdef0123456789abcdef\"".to_owned()),
        ("an image", format!("src=\"data:image/png;base64,iVBORw0KGgo{}\"", noise(7, BASE64, 80))),
        ("a reviewed line", format!("token = \"{}{}\" # pragma: allowlist secret", "ghp_", word(8, 36))),
        ("a stripe test key", format!("key: {}{}", "pk_test_", word(9, 24))),
        ("a tokenizer", "tokenizer = \"cl100k_base-2024-05\"".to_owned()),
        ("a version", "secretmanager = \"google-cloud-2.16.4\"".to_owned()),
    ]
}

#[test]
fn secrets_are_found() {
    let secrets = secrets();
    assert_eq!(secrets.len(), 40);
    let missed: Vec<_> =
        secrets.iter().filter(|(_, text)| scan(text.as_bytes()).is_empty()).map(|(name, _)| name).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn other_text_is_let_be() {
    let harmless = harmless();
    assert_eq!(harmless.len(), 40);
    let taken: Vec<_> = harmless
        .iter()
        .map(|(name, text)| (name, scan(text.as_bytes())))
        .filter(|(_, hits)| !hits.is_empty())
        .collect();
    assert!(taken.len() <= 2, "{taken:?}");
}

#[test]
fn values_are_found_in_elements_headers_and_under_short_names() {
    for text in [
        format!("SMTP_PASS={}", word(50, 24)),
        format!("db_pass: '{}'", word(51, 16)),
        format!("MYSQL_PWD={}", word(52, 20)),
        format!("{{\"pwd\": \"{}\"}}", word(53, 16)),
        format!("<password>{}</password>", word(54, 16)),
        format!("<ns:client-secret> {} </ns:client-secret>", word(55, 32)),
        format!("curl -H 'Authorization: Bearer {}'", word(56, 40)),
        format!("headers = {{\"Authorization\": \"Bearer {}\"}}", word(57, 40)),
        format!(".header(\"authorization\", \"token {}\")", hex(58, 40)),
    ] {
        assert_eq!(scan(text.as_bytes()), [Hit { line: 1, rule: ASSIGNMENT_ID }], "{text}");
    }
    for text in [
        "PWD=/srv/application/release-2024".to_owned(),
        "OLD_PWD=$(pwd)".to_owned(),
        "COMPASS_BYPASS_2=abcdefghij".to_owned(),
        "first_pass = second_pass_of_compiler_v2".to_owned(),
        "<password>${env.DB_PASSWORD_2}</password>".to_owned(),
        "<password>your-password-1</password>".to_owned(),
        "Authorization: Bearer $GITHUB_TOKEN".to_owned(),
        "Authorization: Bearer your-long-token-of-2024-here".to_owned(),
        "authorization: token required for the operations of section 12".to_owned(),
        format!("Authorization: Digest {}", word(59, 40)),
    ] {
        assert_eq!(scan(text.as_bytes()), [], "{text}");
    }
}

#[test]
fn only_the_whole_words_of_the_comment_say_that_a_line_was_reviewed() {
    let token = format!("{}{}", "ghp_", word(1, 36));
    for (comment, reviewed) in [
        ("# Pragma: Allowlist Secret", true),
        ("<!-- pragma: allowlist secret-->", true),
        ("# pragma: allowlist secrets", false),
        ("# pragma: allowlist secret_", false),
        ("# notpragma: allowlist secret", false),
        ("# pragma: allowlist secrets, pragma: allowlist secret", true),
    ] {
        assert_eq!(scan(format!("{token} {comment}").as_bytes()).is_empty(), reviewed, "{comment}");
    }
}

#[test]
fn each_line_is_named_once_a_rule_and_a_long_line_is_searched_to_its_end() {
    let token = format!("{}{}", "ghp_", word(1, 36));
    let text = format!("a\nb {token} {token}\n\n{token}\n");
    let lines: Vec<_> = scan(text.as_bytes()).into_iter().map(|hit| hit.line).collect();
    assert_eq!(lines, [2, 4]);
    let long = format!("{}\n{}{token}{}", "x".repeat(10), "token ".repeat(10_000), " y".repeat(10_000));
    assert_eq!(scan(long.as_bytes()), [Hit { line: 2, rule: "github-token" }]);
    let odd = [b"\xff\xfe ".as_slice(), token.as_bytes(), b"\xff"].concat();
    assert_eq!(scan(&odd).len(), 1);
}

#[test]
fn a_line_of_nothing_but_words_is_searched_in_linear_time() {
    let started = std::time::Instant::now();
    let token = format!("{}{}", "ghp_", word(1, 36));
    let text = format!("{} {token} {}", "token_ghp_".repeat(200_000), "-----BEGIN PRIVATE KEY-----".repeat(10_000));
    assert_eq!(scan(text.as_bytes()), [Hit { line: 1, rule: "github-token" }]);
    assert!(started.elapsed() < std::time::Duration::from_secs(20), "{:?}", started.elapsed());
}

#[test]
fn no_input_is_too_odd() {
    for length in [0, 1, MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, 3 * MAX_LINE] {
        for byte in [0, b'\n', b'x', 0xff] {
            assert_eq!(scan(&vec![byte; length]), []);
        }
    }
    for text in ["-----BEGIN", "token=", "private key-----", "-----BEGIN PRIVATE KEY-----"] {
        assert_eq!(scan(text.as_bytes()), []);
    }
}

#[test]
fn a_header_without_a_key_is_not_the_key_after_it() {
    let (_, key) = secrets().swap_remove(1);
    let text = format!("starts_with(\"{}\")\n\n{key}", key.lines().next().unwrap());
    assert_eq!(scan(text.as_bytes()), [Hit { line: 3, rule: "private-key" }]);
}

proptest::proptest! {
    #[test]
    fn any_mixture_of_words_and_bytes_is_scanned(parts in proptest::collection::vec((0..200_usize, proptest::collection::vec(proptest::num::u8::ANY, 0..40)), 0..60)) {
        let words: Vec<_> = RULES.iter().flat_map(|rule| rule.words).chain(ASSIGNMENT_WORDS).collect();
        let text: Vec<u8> = parts.iter().flat_map(|(word, bytes)| [words[word % words.len()].as_bytes(), bytes].concat()).collect();
        let lines = text.split(|byte| *byte == b'\n').count() as u64;
        for hit in scan(&text) {
            proptest::prop_assert!((1..=lines).contains(&hit.line));
        }
    }
}
