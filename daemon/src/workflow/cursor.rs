//! A place in a line of Markdown, whose white space is counted in columns: a tab may belong to two blocks in part.
//!
//! It knows what white space is and nothing of blocks.

/// A place in a line.
pub(super) struct Cursor<'a> {
    /// What follows the place.
    pub(super) rest: &'a str,
    column: usize,
    /// Columns left of a tab that a container ended within.
    spare: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the start of a line.
    pub(super) fn at(line: &'a str) -> Self {
        Self { rest: line, column: 0, spare: 0 }
    }

    /// Returns how many columns of white space are ahead.
    pub(super) fn indentation(&self) -> usize {
        let mut column = self.column + self.spare;
        for byte in self.rest.bytes() {
            match byte {
                b' ' => column += 1,
                b'\t' => column += 4 - column % 4,
                _ => break,
            }
        }
        column - self.column
    }

    /// Returns what follows the white space.
    pub(super) fn word(&self) -> &'a str {
        self.rest.trim_start_matches([' ', '\t'])
    }

    /// Moves over so many columns, of white space only.
    pub(super) fn advance(&mut self, mut columns: usize) {
        while columns > 0 {
            if self.spare == 0 {
                match self.rest.bytes().next() {
                    Some(b' ') => self.spare = 1,
                    Some(b'\t') => self.spare = 4 - self.column % 4,
                    _ => return,
                }
                self.rest = &self.rest[1..];
            }
            let step = self.spare.min(columns);
            (self.spare, self.column, columns) = (self.spare - step, self.column + step, columns - step);
        }
    }

    /// Moves over so many characters of a mark.
    pub(super) fn pass(&mut self, characters: usize) {
        self.rest = &self.rest[characters..];
        self.column += characters;
    }

    /// Moves over a quote mark and the space after it, when there is one.
    pub(super) fn quote(&mut self) -> bool {
        if !self.word().starts_with('>') {
            return false;
        }
        self.advance(self.indentation());
        self.pass(1);
        self.advance(1);
        true
    }
}

/// White space of Markdown: a no-break space is text to it.
pub(super) fn is_blank(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' ' | b'\t'))
}
