#include "compiler/emit/order_printer.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmc::emit {

using namespace graph;

std::string region_parameters(const plan::Plan& plan, std::size_t r, bool declare) {
  const Region& region = plan.graph.regions[r];
  const bool adds = std::any_of(plan.launches.begin(), plan.launches.end(),
                                [r](const plan::Launch& l) { return l.region_index == r && l.adds; });
  std::string text = declare ? "Step& s" : "s";
  if (adds) text += declare ? ", bool first" : ", first";
  if (region.block == Block::layer) text += declare ? ", std::size_t layer" : ", layer";
  if (region.loop == Loop::loss_chunks) text += declare ? ", std::size_t chunk" : ", chunk";
  return text;
}

bool OrderPrinter::has(Part part) const {
  return std::any_of(g_.regions.begin(), g_.regions.end(), [part](const Region& r) { return r.part == part; });
}

void OrderPrinter::call(std::size_t r) {
  out_.line("$name$($arguments$);", {{"name", g_.regions[r].name}, {"arguments", region_parameters(plan_, r, false)}});
}

/// Calls every region of `part`, in order; all variants of a layer are one loop.
void OrderPrinter::calls(Part part) {
  for (std::size_t r = 0; r < g_.regions.size(); ++r) {
    const Region& region = g_.regions[r];
    if (region.part != part || (region.block == Block::layer && region.variant > 0)) continue;
    const std::string layers = std::to_string(g_.layers());
    switch (region.loop) {
      case Loop::once:
        if (part == Part::backward) await_window(region.block);
        call(r);
        if (part == Part::backward) reduce(region.block);
        continue;
      case Loop::loss_chunks:
        out_.open("for (std::size_t chunk = 0; chunk < $n$; ++chunk)",
                  {{"n", std::to_string(g_.tokens() / g_.chunk_rows)}});
        call(r);
        break;
      case Loop::layers_up:
        out_.open("for (std::size_t layer = 0; layer < $n$; ++layer)", {{"n", layers}});
        variant_calls(part);
        break;
      case Loop::layers_down:
        out_.open("for (std::size_t layer = $n$; layer-- > 0;)", {{"n", layers}});
        if (part == Part::backward) await_window(region.block);
        variant_calls(part);
        if (part == Part::backward) reduce(region.block);
        break;
    }
    out_.close();
  }
}

bool OrderPrinter::has(Part part, Block block) const { return find(part, block) < g_.regions.size(); }

std::size_t OrderPrinter::find(Part part, Block block) const {
  const Region* const found = g_.find(part, block);
  return found ? g_.index_of(*found) : g_.regions.size();
}

/// In the last micro-batch of a step the gradients of a block are complete; those that are shared out do not stay.
void OrderPrinter::reduce(Block block) {
  if (!has(Part::reduce, block)) return;
  const std::size_t r = find(Part::reduce, block);
  out_.line("$when$$name$($arguments$);", {{"when", is_sharded(Use::gradients, shard_) ? "" : "if (last) "},
                                           {"name", g_.regions[r].name},
                                           {"arguments", region_parameters(plan_, r, false)}});
}

std::string OrderPrinter::mark_constant(Part part, Block block) const {
  if (!has(part, block)) return "";
  if (part == Part::reduce && (!is_sharded(Use::gradients, shard_) || block == Block::embed || block == Block::none))
    return "";
  const std::string what = constant_name(block == Block::none ? "vectors" : name_of(block));
  return what + (part == Part::gather ? "Gathered" : "Reduced");
}

std::string OrderPrinter::mark(Part part, Block block) const {
  const std::string constant = mark_constant(part, block);
  return constant + (constant.empty() || block != Block::layer ? "" : " + layer % 2");
}

void OrderPrinter::marks() {
  int number = 0;
  for (const Part part : {Part::gather, Part::reduce})
    for (const Block block : {Block::none, Block::embed, Block::head, Block::layer}) {
      const std::string constant = mark_constant(part, block);
      if (constant.empty()) continue;
      if (number == 0)
        out_.line("// Marks on the ranks' own stream, which the passes wait for; layers take turns in two.");
      out_.line("constexpr int $constant$ = $number$;", {{"constant", constant}, {"number", std::to_string(number)}});
      number += block == Block::layer ? 2 : 1;
    }
  if (number > 0) out_.blank();
}

void OrderPrinter::await(Part part, Block block) {
  if (has(part, block)) out_.line("s.ranks.wait($mark$, s.stream);", {{"mark", mark(part, block)}});
}

void OrderPrinter::gather(Block block, const char* layer) {
  if (has(Part::gather, block))
    out_.line("$name$(s$layer$);", {{"name", g_.regions[find(Part::gather, block)].name}, {"layer", layer}});
}

/// Before the backward pass of a block writes gradients into a window: what was there has been reduced. A layer's
/// weights are gathered again, one ahead; those of the last two are in their windows still.
void OrderPrinter::await_window(Block block) {
  const bool weights = is_sharded(Use::masters, shard_), gradients = is_sharded(Use::gradients, shard_);
  if (block == Block::embed && gradients) await(Part::reduce, Block::head);
  if (block != Block::layer || !gradients) return;
  const std::string n = std::to_string(g_.layers());
  if (weights) {
    out_.open("if (layer + 1 < $n$ && layer > 0)", {{"n", n}});
    gather(Block::layer, ", layer - 1");
    out_.close();
  }
  out_.open("if (layer + 2 < $n$)", {{"n", n}});
  if (weights) await(Part::gather, Block::layer);
  await(Part::reduce, Block::layer);
  out_.close();
}

/// Whether weights are gathered in every pass; else in the first one of a step, if at all.
bool OrderPrinter::gathers_always() const { return is_sharded(Use::masters, shard_); }
const char* OrderPrinter::gather_argument(const char* when) const {
  return has(Part::gather) && !gathers_always() ? when : "";
}

/// Text that runs only where the pass gathers weights.
template <class Print>
void OrderPrinter::where_gathering(Print print) {
  if (!has(Part::gather)) return;
  if (gathers_always()) return print();
  out_.open("if (gather)");
  print();
  out_.close();
}

/// Each block's weights are gathered while the block before it runs. Two layers take turns in their windows, so that
/// a layer's begin when the one before the last is done.
void OrderPrinter::forward() {
  out_.open("void forward(Step& s$gather$)", {{"gather", gather_argument(", bool gather")}});
  where_gathering([this] {
    for (const Block block : {Block::none, Block::embed}) gather(block);
    gather(Block::layer, ", 0");
    for (const Block block : {Block::none, Block::embed}) await(Part::gather, block);
  });
  call(find(Part::forward, Block::embed));
  const std::string layers = std::to_string(g_.layers());
  out_.open("for (std::size_t layer = 0; layer < $n$; ++layer)", {{"n", layers}});
  where_gathering([&] {
    out_.open("if (layer + 1 < $n$)", {{"n", layers}});
    gather(Block::layer, ", layer + 1");
    if (has(Part::gather, Block::head)) {
      out_.middle("} else {");
      gather(Block::head);
    }
    out_.close();
    await(Part::gather, Block::layer);
  });
  variant_calls(Part::forward);
  out_.close();
  if (has(Part::gather, Block::head)) where_gathering([this] { await(Part::gather, Block::head); });
  call(find(Part::forward, Block::head));
  out_.close();
  out_.blank();
}

void OrderPrinter::gather_weights() {
  if (!has(Part::gather) || gathers_always()) {
    out_.line("/// $why$", {{"why", gathers_always() ? "Every pass gathers them." : "Every rank has all of them."}});
    out_.line("void gather_weights(Step&) {}");
  } else {
    out_.open("void gather_weights(Step& s)");
    calls(Part::gather);
    out_.line("s.ranks.join(s.stream);");
    out_.close();
  }
  out_.blank();
}

/// A layer's function is that of its variant.
void OrderPrinter::variant_calls(Part part) {
  for (std::size_t r = 0; r < g_.regions.size(); ++r) {
    const Region& region = g_.regions[r];
    if (region.block != Block::layer || region.part != part) continue;
    if (g_.variant_count() == 1 || region.variant == kAllVariants) return call(r);
    const std::string test =
        region.variant + 1 == g_.variant_count() ? "" : fmt::format("if (kVariant[layer] == {})", region.variant);
    if (region.variant == 0)
      out_.open(test);
    else if (test.empty())
      out_.middle("} else {");
    else
      out_.middle("} else " + test + " {");
    call(r);
  }
  out_.close();
}

void OrderPrinter::passes() {
  gather_weights();
  const bool each = is_sharded(Use::gradients, shard_);
  out_.open("void micro_batch(Step& s, bool first, bool$last$)", {{"last", each ? "" : " last"}});
  out_.line("forward(s$gather$);", {{"gather", gather_argument(", first")}});
  calls(Part::loss);
  calls(Part::backward);
  reduce(Block::none);
  out_.line("$when$s.ranks.join(s.stream);", {{"when", each ? "" : "if (last) "}});
  out_.close();
  out_.blank();
  out_.open("void optimizer_step(Step& s)");
  calls(Part::optimizer);
  out_.close();
  out_.blank();
  out_.open("void evaluate(Step& s, bool first)");
  out_.line("forward(s$gather$);", {{"gather", gather_argument(", false")}});
  calls(Part::evaluate);
  out_.close();
  out_.blank();
  out_.open("void next_logits(Step& s)");
  out_.line("forward(s$gather$);", {{"gather", gather_argument(", false")}});
  calls(Part::sample);
  out_.close();
  out_.blank();
  if (!has(Part::audit)) return;
  out_.open("void audit(Step& s)");
  if (!has(Part::audit, Block::embed)) out_.line("forward(s$gather$);", {{"gather", gather_argument(", false")}});
  calls(Part::audit);
  out_.close();
  out_.blank();
}

}  // namespace llmc::emit
