#include "scale/volume.h"

namespace bonsai::scale {

template class VolumeOf<base::ProductMedium>;
template class VolumeOf<base::HookedMedium>;

}  // namespace bonsai::scale
