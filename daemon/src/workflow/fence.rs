//! Fenced code as the run-base markers have it: text may follow a closer, and nothing but indentation stands before a
//! fence (SPEC-workflow 18).
//!
//! An opener without a closer fences nothing, so that a stray fence never hides what follows it. Closers are looked up
//! in a table made beforehand, so that many openers without one cost no more than few.

use memchr::memmem;

use super::text::Line;

/// Tells the fenced lines of one text apart; the lines must be asked about in order.
pub(super) struct Fences {
    /// Closers of backticks and of tildes that are longer than any later one: where they are, and how long.
    closers: [Vec<(usize, usize)>; 2],
    passed: [usize; 2],
    open: Option<Fence>,
}

#[derive(Debug, Clone, Copy)]
struct Fence {
    character: u8,
    length: usize,
}

impl Fences {
    /// Prepares for the lines of this text.
    pub(super) fn of(text: &str) -> Self {
        Self { closers: ["```", "~~~"].map(|run| closers(text, run)), passed: [0, 0], open: None }
    }

    /// Returns whether the line belongs to a fenced block, its opener and closer included.
    pub(super) fn cover(&mut self, line: &Line<'_>) -> bool {
        let fence = fence(line.text);
        if let Some(open) = self.open {
            if fence.is_some_and(|fence| fence.character == open.character && fence.length >= open.length) {
                self.open = None;
            }
            return true;
        }
        self.open = fence.filter(|fence| self.is_closed(fence, line));
        self.open.is_some()
    }

    fn is_closed(&mut self, fence: &Fence, line: &Line<'_>) -> bool {
        let end = line.start + line.text.len();
        let kind = kind(fence.character);
        let (closers, passed) = (&self.closers[kind], &mut self.passed[kind]);
        while closers.get(*passed).is_some_and(|(closer, _)| *closer < end) {
            *passed += 1;
        }
        closers.get(*passed).is_some_and(|(_, longest)| *longest >= fence.length)
    }
}

/// Returns where the closers are and how long, in order, but only those longer than any later one: the first that is
/// left behind a place tells whether a fence there is closed. Few are, however many closers there are.
fn closers(text: &str, run: &str) -> Vec<(usize, usize)> {
    let (bytes, finder, mut found, mut position) = (text.as_bytes(), memmem::Finder::new(run), Vec::new(), 0);
    while let Some(start) = finder.find(&bytes[position..]).map(|at| position + at) {
        let length = bytes[start..].iter().take_while(|byte| **byte == bytes[start]).count();
        position = start + length;
        let indent = bytes[..start].iter().rev().take(4).take_while(|byte| **byte == b' ').count();
        let before = start.checked_sub(indent + 1).map(|at| bytes[at]);
        let starts_line = indent <= 3 && matches!(before, None | Some(b'\n' | b'\r'));
        if starts_line {
            while found.pop_if(|(_, earlier)| *earlier <= length).is_some() {}
            found.push((start, length));
        }
    }
    found
}

fn kind(character: u8) -> usize {
    usize::from(character == b'~')
}

/// Reads the opener or closer that a line is.
fn fence(line: &str) -> Option<Fence> {
    let run = line.trim_start_matches(' ');
    let character = *run.as_bytes().first().filter(|byte| matches!(byte, b'`' | b'~'))?;
    let length = run.bytes().take_while(|byte| *byte == character).count();
    (line.len() - run.len() <= 3 && length >= 3).then_some(Fence { character, length })
}

#[cfg(test)]
mod tests {
    use super::super::text::lines;
    use super::*;

    fn covered(text: &str) -> Vec<u64> {
        let mut fences = Fences::of(text);
        lines(text).filter(|line| fences.cover(line)).map(|line| line.number).collect()
    }

    #[test]
    fn fences_of_markers() {
        for (text, expected) in [
            ("```\na\n```\nb", vec![1, 2, 3]),
            ("```\na\nb", vec![]),
            ("````\n```\n~~~~\n```` text\nb", vec![1, 2, 3, 4]),
            ("   ```\na\n   ```", vec![1, 2, 3]),
            ("    ```\na\n    ```", vec![]),
            ("> ```\na\n> ```", vec![]),
            ("````\n```\na\n```", vec![2, 3, 4]),
            ("~~~\n```\n~~~\n```", vec![1, 2, 3]),
            ("```a```\nb\n```", vec![1, 2, 3]),
            ("- ```\n  a\n  ```", vec![]),
        ] {
            assert_eq!(covered(text), expected, "{text}");
        }
    }
}
