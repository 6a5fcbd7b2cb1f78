//! A linear programme whose columns are found while it is solved, and the prices of its rows.
//!
//! Maximises the value of columns, each between nothing and its own bound, under rows that may not be exceeded. Columns that
//! can not be listed beforehand (every way to fill a GPU) come from a question asked with the current prices. The simplex
//! method with bounds, on a dense inverse: there are some hundred rows, and the same question always gets the same answer.

/// What one unit of something takes from the rows, and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Column {
    /// Rows it takes from, and how much; negative where it gives.
    pub(crate) takes: Vec<(usize, f64)>,
    /// Its worth.
    pub(crate) worth: f64,
    /// At most so much of it.
    pub(crate) most: f64,
}

/// What is left of a question once it is answered.
#[derive(Debug, Clone)]
pub(crate) struct Solution {
    /// The worth of everything chosen.
    pub(crate) worth: f64,
    /// What one more unit of each row would be worth.
    pub(crate) prices: Vec<f64>,
    /// Whether the method came to its end; otherwise the prices are those of the last step.
    pub(crate) finished: bool,
}

/// Smaller gains are taken for rounding.
const GAIN: f64 = 1e-9;
/// Smaller pivots would blow up rounding errors.
const PIVOT: f64 = 1e-9;
/// The inverse is computed anew after so many steps, before rounding errors show.
const FRESH: usize = 150;
/// Far more steps than any fleet has needed.
const STEPS: usize = 50_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Place {
    Basic,
    AtNothing,
    AtMost,
}

struct Tableau {
    rows: usize,
    room: Vec<f64>,
    columns: Vec<Column>,
    place: Vec<Place>,
    basis: Vec<usize>,
    inverse: Vec<f64>,
    amounts: Vec<f64>,
}

/// Solves the programme. `more` names further columns that would gain at the given prices, or none.
pub(crate) fn maximise(
    room: &[f64],
    columns: Vec<Column>,
    mut more: impl FnMut(&[f64]) -> Vec<Column>,
) -> Solution {
    let mut tableau = Tableau::new(room, columns);
    let mut finished = false;
    for step in 0..STEPS {
        if step % FRESH == FRESH - 1 {
            tableau.refresh();
        }
        let prices = tableau.prices();
        if let Some((column, sign)) = tableau.entering(&prices) {
            if !tableau.enter(column, sign) {
                break;
            }
            continue;
        }
        let found = more(&prices);
        if found.is_empty() {
            finished = true;
            break;
        }
        for column in found {
            tableau.columns.push(column);
            tableau.place.push(Place::AtNothing);
        }
    }
    Solution { worth: tableau.worth(), prices: tableau.prices(), finished }
}

impl Tableau {
    fn new(room: &[f64], columns: Vec<Column>) -> Self {
        let rows = room.len();
        // Rows without room make every step stand still; a trace of room, different for each, lets it move on.
        let slack = |row: usize| Column { takes: vec![(row, 1.0)], worth: 0.0, most: f64::INFINITY };
        let room: Vec<f64> = room
            .iter()
            .enumerate()
            .map(|(row, room)| room + 1e-7 * (1.0 + row as f64 / rows as f64))
            .collect();
        let mut all: Vec<Column> = (0..rows).map(slack).collect();
        all.extend(columns);
        let mut place = vec![Place::AtNothing; all.len()];
        place[..rows].fill(Place::Basic);
        let mut inverse = vec![0.0; rows * rows];
        for row in 0..rows {
            inverse[row * rows + row] = 1.0;
        }
        Tableau {
            rows,
            amounts: room.clone(),
            room,
            columns: all,
            place,
            basis: (0..rows).collect(),
            inverse,
        }
    }

    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.rows];
        for (row, &basic) in self.basis.iter().enumerate() {
            let worth = self.columns[basic].worth;
            if worth != 0.0 {
                let line = &self.inverse[row * self.rows..(row + 1) * self.rows];
                for (price, part) in prices.iter_mut().zip(line) {
                    *price += worth * part;
                }
            }
        }
        prices
    }

    fn worth(&self) -> f64 {
        let basic: f64 = self
            .basis
            .iter()
            .zip(&self.amounts)
            .map(|(&basic, amount)| self.columns[basic].worth * amount)
            .sum();
        let full = self.columns.iter().zip(&self.place).filter(|(_, place)| **place == Place::AtMost);
        basic + full.map(|(column, _)| column.worth * column.most).sum::<f64>()
    }

    /// The column that gains most, and whether by more (1) or by less (-1) of it.
    fn entering(&self, prices: &[f64]) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64, f64)> = None;
        for (index, (column, place)) in self.columns.iter().zip(&self.place).enumerate() {
            if *place == Place::Basic {
                continue;
            }
            let cost: f64 = column.takes.iter().map(|(row, takes)| prices[*row] * takes).sum();
            let gain = column.worth - cost;
            let (gain, sign) = if *place == Place::AtMost { (-gain, -1.0) } else { (gain, 1.0) };
            if gain > GAIN && best.is_none_or(|(_, most, _)| gain > most) {
                best = Some((index, gain, sign));
            }
        }
        best.map(|(index, _, sign)| (index, sign))
    }

    /// How the basic amounts shrink for each unit of a column.
    fn direction(&self, column: usize) -> Vec<f64> {
        let takes = &self.columns[column].takes;
        (0..self.rows)
            .map(|row| {
                let line = &self.inverse[row * self.rows..(row + 1) * self.rows];
                takes.iter().map(|(at, takes)| line[*at] * takes).sum()
            })
            .collect()
    }

    /// Takes as much of the column as can be had; false if there is no end to it.
    fn enter(&mut self, column: usize, sign: f64) -> bool {
        let direction = self.direction(column);
        let mut step = self.columns[column].most;
        let mut leaving: Option<(usize, Place, f64)> = None;
        for (row, part) in direction.iter().enumerate() {
            let part = part * sign;
            let (limit, place) = if part > PIVOT {
                (self.amounts[row].max(0.0) / part, Place::AtNothing)
            } else if part < -PIVOT {
                let most = self.columns[self.basis[row]].most;
                ((most - self.amounts[row]).max(0.0) / -part, Place::AtMost)
            } else {
                continue;
            };
            // Of equal limits the largest pivot: it keeps rounding errors small.
            let closer = limit < step - 1e-12
                || (limit <= step && leaving.is_none_or(|(_, _, pivot)| part.abs() > pivot));
            if closer && limit.is_finite() {
                step = step.min(limit);
                leaving = Some((row, place, part.abs()));
            }
        }
        if !step.is_finite() {
            return false;
        }
        for (amount, part) in self.amounts.iter_mut().zip(&direction) {
            *amount -= step * sign * part;
        }
        let Some((row, place, _)) = leaving else {
            self.place[column] = if sign > 0.0 { Place::AtMost } else { Place::AtNothing };
            return true;
        };
        let entered = if sign > 0.0 { step } else { self.columns[column].most - step };
        self.place[self.basis[row]] = place;
        self.place[column] = Place::Basic;
        self.basis[row] = column;
        self.amounts[row] = entered;
        self.pivot(row, &direction);
        true
    }

    fn pivot(&mut self, row: usize, direction: &[f64]) {
        let rows = self.rows;
        let pivot = direction[row];
        for at in &mut self.inverse[row * rows..(row + 1) * rows] {
            *at /= pivot;
        }
        let line = self.inverse[row * rows..(row + 1) * rows].to_vec();
        for (other, part) in direction.iter().enumerate() {
            if other != row && *part != 0.0 {
                let target = &mut self.inverse[other * rows..(other + 1) * rows];
                for (at, from) in target.iter_mut().zip(&line) {
                    *at -= part * from;
                }
            }
        }
    }

    /// Computes the inverse and the amounts from the basis, by elimination with the largest pivots.
    fn refresh(&mut self) {
        let rows = self.rows;
        let mut matrix = vec![0.0; rows * rows];
        for (position, &basic) in self.basis.iter().enumerate() {
            for (row, takes) in &self.columns[basic].takes {
                matrix[row * rows + position] = *takes;
            }
        }
        let mut inverse = vec![0.0; rows * rows];
        for row in 0..rows {
            inverse[row * rows + row] = 1.0;
        }
        for step in 0..rows {
            let size = |row: &usize| matrix[row * rows + step].abs();
            let Some(largest) = (step..rows).max_by(|a, b| size(a).total_cmp(&size(b))) else { return };
            if size(&largest) < PIVOT {
                // A basis that can not be inverted any more: what was carried along is the better guess.
                return;
            }
            if largest != step {
                for at in 0..rows {
                    matrix.swap(step * rows + at, largest * rows + at);
                    inverse.swap(step * rows + at, largest * rows + at);
                }
            }
            let pivot = matrix[step * rows + step];
            for at in 0..rows {
                matrix[step * rows + at] /= pivot;
                inverse[step * rows + at] /= pivot;
            }
            for row in 0..rows {
                let part = matrix[row * rows + step];
                if row == step || part == 0.0 {
                    continue;
                }
                for at in 0..rows {
                    matrix[row * rows + at] -= part * matrix[step * rows + at];
                    inverse[row * rows + at] -= part * inverse[step * rows + at];
                }
            }
        }
        self.inverse = inverse;
        let mut left = self.room.clone();
        for (column, place) in self.columns.iter().zip(&self.place) {
            if *place == Place::AtMost {
                for (row, takes) in &column.takes {
                    left[*row] -= takes * column.most;
                }
            }
        }
        for row in 0..rows {
            let line = &self.inverse[row * rows..(row + 1) * rows];
            self.amounts[row] = line.iter().zip(&left).map(|(part, left)| part * left).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, maximise};
    use proptest::prelude::{Strategy, prop_assert, proptest};

    fn column(takes: &[(usize, f64)], worth: f64, most: f64) -> Column {
        Column { takes: takes.to_vec(), worth, most }
    }

    #[test]
    fn a_textbook_case() {
        // 3x + 5y, x <= 4, 2y <= 12, 3x + 2y <= 18: 36 at (2, 6), prices 0, 1.5 and 1.
        let columns = vec![
            column(&[(0, 1.0), (2, 3.0)], 3.0, f64::INFINITY),
            column(&[(1, 2.0), (2, 2.0)], 5.0, f64::INFINITY),
        ];
        let solution = maximise(&[4.0, 12.0, 18.0], columns, |_| Vec::new());
        assert!(solution.finished);
        assert!((solution.worth - 36.0).abs() < 1e-4, "{solution:?}");
        for (price, expected) in solution.prices.iter().zip([0.0, 1.5, 1.0]) {
            assert!((price - expected).abs() < 1e-6, "{solution:?}");
        }
    }

    #[test]
    fn bounds_bind_without_a_row() {
        let columns = vec![column(&[(0, 1.0)], 2.0, 3.0), column(&[(0, 1.0)], 1.0, 100.0)];
        let solution = maximise(&[10.0], columns, |_| Vec::new());
        assert!((solution.worth - 13.0).abs() < 1e-4, "{solution:?}");
        assert!((solution.prices[0] - 1.0).abs() < 1e-9);
    }

    fn programmes() -> impl Strategy<Value = (Vec<f64>, Vec<Column>)> {
        let part = (0_u32..5).prop_map(f64::from);
        let column =
            (proptest::collection::vec(part, 4), 0_u32..9, 1_u32..6).prop_map(|(takes, worth, most)| {
                let takes = takes.into_iter().enumerate().filter(|(_, takes)| *takes > 0.0).collect();
                Column { takes, worth: f64::from(worth), most: f64::from(most) }
            });
        (
            proptest::collection::vec((0_u32..20).prop_map(f64::from), 4),
            proptest::collection::vec(column, 1..9),
        )
    }

    proptest! {
        // Whatever the prices claim is proved by weak duality: no choice can be worth more than rows and bounds priced,
        // and the choice found is worth just that.
        #[test]
        fn the_prices_prove_the_optimum((room, columns) in programmes()) {
            let solution = maximise(&room, columns.clone(), |_| Vec::new());
            prop_assert!(solution.finished);
            prop_assert!(solution.prices.iter().all(|price| *price > -1e-6));
            let rows: f64 = solution.prices.iter().zip(&room).map(|(price, room)| price * room).sum();
            let bounds: f64 = columns.iter().map(|column| {
                let cost: f64 = column.takes.iter().map(|(row, takes)| solution.prices[*row] * takes).sum();
                (column.worth - cost).max(0.0) * column.most
            }).sum();
            prop_assert!((rows + bounds - solution.worth).abs() < 1e-3, "{rows} + {bounds} against {}", solution.worth);
        }
    }
}
